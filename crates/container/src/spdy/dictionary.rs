//! The text that both sides of SPDY/3 know before the first header is sent, as its specification has it.

/// Words, each with its length in front.
const WORDS: &[&str] = &[
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
];

/// What follows them.
const REST: &[&str] = &[
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Au",
    "thoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidd",
    "en404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr Ma",
    "y Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,imag",
    "e/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,publicpri",
    "vatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.",
];

pub(super) fn dictionary() -> Vec<u8> {
    let mut text = Vec::new();
    for word in WORDS {
        text.extend(u32::try_from(word.len()).unwrap_or(u32::MAX).to_be_bytes());
        text.extend_from_slice(word.as_bytes());
    }
    text.extend_from_slice(REST.concat().as_bytes());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_one_that_all_others_use() {
        let (mut low, mut high) = (1_u32, 0_u32);
        for byte in dictionary() {
            low = (low + u32::from(byte)) % 65_521;
            high = (high + low) % 65_521;
        }
        assert_eq!(high << 16 | low, 0xe3c6_a7c2, "the Adler-32 checksum that senders put into their streams");
    }
}
