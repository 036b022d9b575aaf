//! What the pages may load, run and be framed by: the files beside them, and nothing else.

use std::sync::LazyLock;

use ring::digest::{SHA256, digest};

use super::asset;

/// The content security policy. The import map stands in the document itself, because browsers read
/// it from nowhere else, so the policy names its hash.
pub(super) static POLICY: LazyLock<String> = LazyLock::new(|| {
    let map = import_map(asset::INDEX).expect("the document has an import map");
    let hash = base64(digest(&SHA256, map.as_bytes()).as_ref());
    format!(
        "default-src 'none'; script-src 'self' 'sha256-{hash}'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
});

fn import_map(document: &str) -> Option<&str> {
    let (_, rest) = document.split_once("<script type=\"importmap\">")?;
    Some(rest.split_once("</script>")?.0)
}

/// Base64 with padding, as the policy writes hashes.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_lets_nothing_run_but_the_files_beside_the_page() {
        assert!(
            !POLICY.contains("unsafe") && !POLICY.contains('*') && !POLICY.contains("http"),
            "{}",
            *POLICY
        );
        assert!(import_map(asset::INDEX).unwrap().contains("\"imports\""));
        let inline = asset::INDEX.matches("<script").count()
            - asset::INDEX.matches("<script type=\"module\" src=").count();
        assert_eq!(inline, 1, "nothing but the import map stands in the document");
    }

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }
}
