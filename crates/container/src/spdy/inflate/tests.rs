//! What other deflate writers make of headers.

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|index| u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).unwrap()).collect()
}

/// A header block in plain.
fn headers(kind: &str) -> Vec<u8> {
    let mut plain = 3_u32.to_be_bytes().to_vec();
    for text in ["streamtype", kind, "port", "8080", "requestid", "0"] {
        plain.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
        plain.extend(text.as_bytes());
    }
    plain
}

/// Made with zlib: the first block of a connection, and the second, which refers to the first.
const BLOCKS: [[&str; 2]; 2] = [
    [
        "783fe3c6a7c202253a703a2b294a4dcc851625aca9a0808614cb45e01c6061606100a4398b20d198094ade8c0600000000ffff",
        "c2aa19540e2512d60b000000ffff",
    ],
    [
        "78f9e3c6a7c202253a703a2b294a4dcc851625aca9a0808614cb45e01c6061606100a4398b20d198094ade8c0600000000ffff",
        "c2aa19540e2512d60b000000ffff",
    ],
];

/// `0:;1:b;2:ee;…`, with a code of its own for letters and distances.
const NUMBERS: &str = "78f9e3c6a7c24453c1b2232108fc255104a1bf665f6d2ed9da97da5c5e2a5fbf883ae983c3cc887643531ce45fa87ebba1f9fd7e07fbbf00babf2720fe2701f5d70286ffdd80457af11f10f9f309aafe783c40cdbf03209eaff3438fbf1320f19f0590faef0dd08873cc5fa825ae43a579396a5d546a120b6a9583e6046af7af0554f15f1ba8eaa8c3e3bf450a5a9907a0e5716fb4bab4a0b5ad058d8f16b4fee1d3c4d1d49f682324a0d914042ea9074c4b0eb86e35e07692c1fc290f77074705c11a14c023f9b0a51ef4b2e4a0d356835e8f18f47624c66776f4ee91223e7ba3599f3e520fba2d3990b2af86d0c5470ec9a029cd21d115480f4510c97e89a61ec8f0bdcd7636b45cf5513a067841ab439bbfa1d32dd09ece51493d505dcca163ab81dad5afb155cf9d831c23ba8cd1667d064f4118dd97cf645d8e71ac82312eff0cdba60ae6163636f26fd87420ac797ee5dc0cdb9d85c9a98f7ddc6c633b3c6eb6f473b826569a0ea23227e316cfd58d0878698ae8783042399a22d6e5d67ba64f63178b4a11a5b589b28cf1acc925826d9d88f8d889ae89899121596394931453134bb832d65900fc070000ffff";

#[test]
fn blocks_of_other_writers_are_read_one_after_the_other() {
    for [first, second] in BLOCKS {
        let mut inflater = Inflater::new();
        assert_eq!(inflater.block(&bytes(first)), Ok(headers("error")));
        assert_eq!(inflater.block(&bytes(second)), Ok(headers("data")));
    }
}

#[test]
fn our_own_stored_blocks_are_read_too() {
    let (mut writer, mut inflater) = (crate::spdy::headers::HeaderWriter::default(), Inflater::new());
    for kind in ["error", "data"] {
        let block = writer.block(&[("streamtype", kind), ("port", "8080"), ("requestid", "0")]);
        assert_eq!(inflater.block(&block), Ok(headers(kind)));
    }
}

#[test]
fn a_block_with_codes_of_its_own_is_read() {
    let letter = |number: usize| char::from(b'a' + u8::try_from(number * number % 26).unwrap()).to_string();
    let plain: String = (0..120).map(|number| format!("{number}:{};", letter(number).repeat(number % 9))).collect();
    assert_eq!(Inflater::new().block(&bytes(NUMBERS)), Ok(plain.into_bytes()));
}

#[test]
fn bytes_that_are_cut_or_changed_are_an_answer_and_no_panic() {
    let whole = bytes(NUMBERS);
    for end in 0..whole.len() {
        let _ = Inflater::new().block(&whole[..end]);
    }
    for index in 0..whole.len() {
        for bit in 0..8 {
            let mut changed = whole.clone();
            changed[index] ^= 1 << bit;
            let _ = Inflater::new().block(&changed);
        }
    }
    // A short block that says a lot is refused.
    let bomb = [&whole[..6], &[0x02, 0x00], &[0xff; 400]].concat();
    let _ = Inflater::new().block(&bomb);
}
