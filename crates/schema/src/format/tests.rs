//! Which texts have which format.

use super::*;

#[test]
fn formats_take_what_the_api_takes() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        (
            "date-time",
            &["2026-01-01T00:00:00Z", "2026-01-01t00:00:00.5+02:00", "2026-01-01T23:59:59z"],
            &["yesterday", "2026-01-01T00:00:00", "2026-01-01", "2026-01-01T24:00:00Z", "2026-13-01T00:00:00Z", ""],
        ),
        ("datetime", &["2026-01-01T00:00:00Z"], &["now"]),
        ("date", &["2024-02-29"], &["2026-02-29", "2026-2-1", ""]),
        (
            "duration",
            &["1h30m", "-1.5h", ".5s", "0", "2 days", "1h 3 weeks", "300ms", "22 ns"],
            &["", "1 fortnight", "h", "1", "-", "soon"],
        ),
        ("ipv4", &["10.0.0.1", "010.000.0.1", "::ffff:10.0.0.1"], &["10.0.0", "10.0.0.256", "::1", ""]),
        ("ipv6", &["::1", "fe80::1", "::ffff:10.0.0.1"], &["10.0.0.1", "fe80::1%eth0", ""]),
        ("cidr", &["10.0.0.0/8", "010.0.0.1/08", "fd00::/64"], &["10.0.0.0/33", "10.0.0.0", "10.0.0.0/+8", "x/1"]),
        (
            "uri",
            &["https://a.b/c", "/path", "urn:a:b", "http://[::1]:80/x", "https://u:p@h:1/?q=%zz", "/a b"],
            &["", "a b", "a/b", "http://a b/", "http://h:port/", "/%zz", "://x", "http://h\n"],
        ),
        (
            "hostname",
            &["a", "example.com", "a-b.example.com", "1.example.org", "bücher.de", "localhost", "a-b"],
            &["", "a-.example.com", "-a.example.com", "my-host", "a_b.com", "example.c", "10.0.0.1", "a.b."],
        ),
        ("email", &["a@b.c", "Ann <a@b.c>", "\"a b\"@c", "a+b@c"], &["", "a", "a@", "@b", "a b@c", "a@b c"]),
        (
            "mac",
            &["00:11:22:33:44:55", "00-11-22-33-44-55", "0011.2233.4455", "00:11:22:33:44:55:66:77"],
            &["00:11:22:33:44", "00:11-22:33:44:55", "0011.2233", "001122334455"],
        ),
        (
            "uuid",
            &["6f1b3f0e-8a6b-4a53-9c1e-0d6a3e3f0a11", "6F1B3F0E8A6B4A539C1E0D6A3E3F0A11"],
            &["6f1b3f0e-8a6b-4a53-9c1e-0d6a3e3f0a1", "6f1b3f0e--8a6b-4a53-9c1e-0d6a3e3f0a11", ""],
        ),
        ("uuid3", &["6f1b3f0e-8a6b-3a53-0c1e-0d6a3e3f0a11"], &["6f1b3f0e-8a6b-4a53-9c1e-0d6a3e3f0a11"]),
        (
            "uuid4",
            &["6f1b3f0e-8a6b-4a53-9c1e-0d6a3e3f0a11"],
            &["6f1b3f0e-8a6b-4a53-0c1e-0d6a3e3f0a11", "6f1b3f0e-8a6b-5a53-9c1e-0d6a3e3f0a11"],
        ),
        ("uuid5", &["6f1b3f0e-8a6b-5a53-bc1e-0d6a3e3f0a11"], &["6f1b3f0e-8a6b-4a53-9c1e-0d6a3e3f0a11"]),
        ("byte", &["YQ==", "YWI=", "YWJj"], &["", "YQ=", "YQ", "Y-_=", "===="]),
        ("isbn", &["0321751043", "978-0321751041"], &["0321751044", "978-0321751042", ""]),
        ("isbn10", &["0321751043", "080442957X"], &["978-0321751041"]),
        ("isbn13", &["978-0321751041"], &["0321751043"]),
        ("creditcard", &["4111 1111 1111 1111", "378282246310005"], &["4111111111111112", "1", ""]),
        ("ssn", &["111-11-1111", "111 11 1111"], &["111111111", "111-11-111a"]),
        ("hexcolor", &["#fff", "A0B1C2"], &["#ffff", "#ggg", ""]),
        ("rgbcolor", &["rgb(1, 22,255)"], &["rgb(1,2)", "rgb(256,1,1)", "rgb(01,1,1)"]),
        ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f1f77bcf86cd79943901", "z07f1f77bcf86cd799439011"]),
        ("k8s-short-name", &["a", "a-1"], &["A", "a.b", "-a", ""]),
        ("k8s-long-name", &["a.b-c", "a"], &["a..b", "A.b", ""]),
        ("password", &["", "anything"], &[]),
        ("no-such-format", &["anything"], &[]),
    ];
    for (format, good, bad) in cases {
        for text in *good {
            assert!(fits(format, text), "{format} {text:?}");
        }
        for text in *bad {
            assert!(!fits(format, text), "{format} {text:?}");
        }
    }
}

#[test]
fn a_format_belongs_to_a_type() {
    for (value_type, format, wanted) in [
        ("string", "date-time", true),
        ("", "uuid", true),
        ("string", "int32", false),
        ("string", "int-or-string", false),
        ("integer", "int32", true),
        ("integer", "int8", false),
        ("number", "double", true),
        ("number", "int32", false),
        ("boolean", "byte", false),
        ("object", "date", false),
    ] {
        assert_eq!(is_recognized(value_type, format), wanted, "{value_type} {format}");
    }
}
