//! First packet of a client of the native protocol, and the refusal that it can read.
//!
//! ```text
//! hello      0, client, major, minor, revision, database, user, password
//! exception  2, code (4 bytes), name, message, stack, is there another one (1 byte)
//! ```
//!
//! Numbers are of seven bits a byte, the lowest first; texts have their length before them.

use std::io::{self, ErrorKind};

use tokio::io::{AsyncBufRead, AsyncReadExt as _};

/// Kind of the packet.
const HELLO: u64 = 0;
/// Kind of a packet of the server: what follows is an error.
const EXCEPTION: u8 = 2;
/// Bytes of a text. Longer ones are names of nobody.
const TEXT_BYTES_MAX: u64 = 4096;

/// Hello of a client.
#[derive(Debug)]
pub(super) struct Hello {
    /// The packet as it came.
    pub(super) bytes: Vec<u8>,
    pub(super) user: String,
    pub(super) password: String,
}

/// Packet that is being read.
struct Packet<'a, R> {
    from: &'a mut R,
    bytes: Vec<u8>,
}

// === impl Hello ===

impl Hello {
    /// Reads the hello, and no byte behind it.
    pub(super) async fn read(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Self> {
        let bytes = Vec::new();
        let mut packet = Packet { from, bytes };
        if packet.number().await? != HELLO {
            return Err(ErrorKind::InvalidData.into());
        }
        let _client = packet.text().await?;
        for _ in ["major", "minor", "revision"] {
            packet.number().await?;
        }
        let _database = packet.text().await?;
        let user = packet.text().await?;
        let password = packet.text().await?;
        Ok(Self {
            bytes: packet.bytes,
            user,
            password,
        })
    }
}

// === impl Packet ===

impl<R: AsyncBufRead + Unpin> Packet<'_, R> {
    async fn byte(&mut self) -> io::Result<u8> {
        let byte = self.from.read_u8().await?;
        self.bytes.push(byte);
        Ok(byte)
    }

    async fn number(&mut self) -> io::Result<u64> {
        let mut number = 0;
        // More would not fit.
        for shift in (0..63).step_by(7) {
            let byte = self.byte().await?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(ErrorKind::InvalidData.into())
    }

    /// Reads a text. One that is not UTF-8 is nobody's name.
    async fn text(&mut self) -> io::Result<String> {
        let length = self.number().await?;
        if length > TEXT_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut text = Vec::new();
        for _ in 0..length {
            text.push(self.byte().await?);
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Exception as the server writes it. The message is shorter than 128 bytes.
pub(super) fn exception(code: i32, message: &str) -> Vec<u8> {
    let mut packet = vec![EXCEPTION];
    packet.extend_from_slice(&code.to_le_bytes());
    for text in ["DB::Exception", message, ""] {
        let kept = text.get(..text.len().min(127)).unwrap_or_default();
        packet.push(kept.len() as u8);
        packet.extend_from_slice(kept.as_bytes());
    }
    packet.push(0);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hello of a client with this user and password.
    fn hello(user: &[u8], password: &[u8]) -> Vec<u8> {
        let mut packet = vec![0, 4];
        packet.extend_from_slice(b"test");
        packet.extend_from_slice(&[26, 7, 0xb8, 0xa9, 0x03, 0]);
        for text in [user, password] {
            assert!(text.len() < 128);
            packet.push(text.len() as u8);
            packet.extend_from_slice(text);
        }
        packet
    }

    #[tokio::test]
    async fn a_hello_is_read_with_no_byte_behind_it() {
        let packet = hello(b"reader", b"secret");
        let behind = [&packet[..], b"more"].concat();
        let mut from = &behind[..];
        let read = Hello::read(&mut from).await.unwrap();
        assert_eq!(read.bytes, packet);
        assert_eq!((&*read.user, &*read.password), ("reader", "secret"));
        assert_eq!(from, b"more");
    }

    #[tokio::test]
    async fn other_packets_are_refused_after_few_bytes() {
        let long = [&[0][..], &[0xff; 20]].concat();
        let named = [&[0, 0xff, 0xff, 0x7f][..], &[b'a'; 9000]].concat();
        let table: [(&[u8], ErrorKind); 6] = [
            (b"", ErrorKind::UnexpectedEof),
            (b"GET / HTTP/1.1\r\n\r\n", ErrorKind::InvalidData),
            (b"\x01", ErrorKind::InvalidData),
            (b"\0\x04te", ErrorKind::UnexpectedEof),
            (&long, ErrorKind::InvalidData),
            (&named, ErrorKind::InvalidData),
        ];
        for (bytes, expected) in table {
            let mut from = bytes;
            let error = Hello::read(&mut from).await.unwrap_err();
            assert_eq!(error.kind(), expected, "{bytes:?}");
        }
        let no_text = hello(b"mill\xffrace", b"");
        let read = Hello::read(&mut &no_text[..]).await.unwrap();
        assert_ne!(read.user, "millrace");
    }

    #[test]
    fn an_exception_has_its_code_and_message() {
        let packet = exception(516, "no");
        let expected = [
            &[2, 4, 2, 0, 0, 13][..],
            b"DB::Exception",
            &[2],
            b"no",
            &[0, 0],
        ];
        assert_eq!(packet, expected.concat());
    }
}
