//! Server whose answers have a type that PostgreSQL does not know: an array of another such type,
//! and so on without end.

/// First OID that is none of PostgreSQL's own types.
const OID_FIRST: u32 = 100_000;
/// OIDs of the driver's own columns: `name`, `"char"` and `oid`.
const NAME: u32 = 19;
const CHAR: u32 = 18;
const OID: u32 = 26;
/// Types of the columns of the driver's query for a type.
const TYPE_COLUMNS: [u32; 7] = [NAME, CHAR, OID, OID, OID, NAME, OID];

/// State of a session with the server, from a statement on.
#[derive(Default)]
pub struct EndlessTypes {
    received: Vec<u8>,
    is_type_query: bool,
    /// Number of types that were described.
    types: u32,
}

impl EndlessTypes {
    /// Answers to the messages that are complete with this piece.
    pub fn answers(&mut self, piece: &[u8]) -> Vec<u8> {
        self.received.extend_from_slice(piece);
        let mut answers = Vec::new();
        while let Some(length) = self.received.get(1..5) {
            let end = 1 + u32::from_be_bytes(length.try_into().unwrap()) as usize;
            if self.received.len() < end {
                break;
            }
            let message: Vec<u8> = self.received.drain(..end).collect();
            answers.extend(self.answer(message[0], &message[5..]));
        }
        answers
    }

    fn answer(&mut self, kind: u8, body: &[u8]) -> Vec<u8> {
        match kind {
            b'P' => {
                let asked = b"pg_catalog.pg_type";
                let mut windows = body.windows(asked.len());
                self.is_type_query = windows.any(|window| window == asked);
                message(b'1', &[])
            }
            b'B' => message(b'2', &[]),
            b'D' if self.is_type_query => described(&[OID], &TYPE_COLUMNS),
            b'D' => described(&[], &[OID_FIRST]),
            b'E' if self.is_type_query => {
                self.types += 1;
                let element = (OID_FIRST + self.types).to_be_bytes();
                let none = 0_u32.to_be_bytes();
                let values: [Option<&[u8]>; 7] = [
                    Some(b"array"),
                    Some(b"b"),
                    Some(&element),
                    None,
                    Some(&none),
                    Some(b"public"),
                    Some(&none),
                ];
                [row(&values), message(b'C', b"SELECT 1\0")].concat()
            }
            b'E' => message(b'C', b"SELECT 0\0"),
            b'S' => message(b'Z', b"I"),
            _ => Vec::new(),
        }
    }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[kind][..], &length.to_be_bytes(), body].concat()
}

fn count(items: usize) -> [u8; 2] {
    u16::try_from(items).unwrap().to_be_bytes()
}

/// Description of a statement by the types of its parameters and of its columns.
fn described(parameters: &[u32], columns: &[u32]) -> Vec<u8> {
    let mut body = count(parameters.len()).to_vec();
    for oid in parameters {
        body.extend(oid.to_be_bytes());
    }
    let mut described = message(b't', &body);
    let mut body = count(columns.len()).to_vec();
    for oid in columns {
        // A name, no table, no column of it; then the size, the modifier and the format.
        body.extend(b"a\0\0\0\0\0\0\0");
        body.extend(oid.to_be_bytes());
        body.extend([0xff; 6]);
        body.extend([0, 1]);
    }
    described.extend(message(b'T', &body));
    described
}

fn row(values: &[Option<&[u8]>]) -> Vec<u8> {
    let mut body = count(values.len()).to_vec();
    for value in values {
        let length = value.map_or(-1, |value| i32::try_from(value.len()).unwrap());
        body.extend(length.to_be_bytes());
        body.extend(value.unwrap_or_default());
    }
    message(b'D', &body)
}
