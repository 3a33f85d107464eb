//! Names of countries as geolocation databases spell them, so that imported and live events agree.

/// Lines of a code of ISO 3166-1 and a name, sorted.
const COUNTRIES: &str = include_str!("countries.tsv");

/// Name of a country by its two-letter code, in any case.
pub(crate) fn name(code: &str) -> Option<&'static str> {
    let code: [u8; 2] = code.as_bytes().try_into().ok()?;
    let code = code.map(|letter| letter.to_ascii_uppercase());
    let line = COUNTRIES
        .lines()
        .find(|line| line.as_bytes().starts_with(&code))?;
    line.get(3..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn countries_are_found_by_code() {
        let table = [
            ("US", Some("United States")),
            ("gb", Some("United Kingdom")),
            ("CI", Some("Ivory Coast")),
            ("AD", Some("Andorra")),
            ("ZW", Some("Zimbabwe")),
            ("XX", None),
            ("USA", None),
            ("é", None),
            ("", None),
        ];
        for (code, country) in table {
            assert_eq!(name(code), country, "{code}");
        }
    }

    #[test]
    fn the_list_is_sorted_and_complete() {
        let codes: Vec<_> = COUNTRIES.lines().map(|line| &line[..3]).collect();
        assert!(codes.is_sorted());
        assert!(codes.iter().all(|code| code.ends_with('\t')));
        // All codes that ISO 3166-1 assigns, and Kosovo's.
        assert_eq!(codes.len(), 250);
    }
}
