//! Weight files are checked when loaded.
#![allow(clippy::unwrap_used)]

use crane_model::{Error, PaperWeights};

const GOOD: &[u8] = include_bytes!("../../weights/paper.safetensors");

/// Changes the header of a safetensors file, keeping its length field right.
fn with_header(file: &[u8], change: impl Fn(String) -> String) -> Vec<u8> {
    let (length, rest) = file.split_first_chunk::<8>().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let header = change(String::from_utf8(header.to_vec()).unwrap());
    [
        &(header.len() as u64).to_le_bytes()[..],
        header.as_bytes(),
        data,
    ]
    .concat()
}

#[test]
fn foreign_and_damaged_files_are_refused_with_the_problem() {
    let good = GOOD.to_vec();
    let loaded = PaperWeights::load(&good).unwrap();
    assert_eq!((loaded.layers.len(), loaded.theta), (4, 1024.0));

    let mut nan = good.clone();
    let end = nan.len();
    nan[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    let cases = [
        (Vec::new(), "not a complete safetensors file"),
        (
            b"PK\x03\x04 something else entirely".to_vec(),
            "not a complete safetensors file",
        ),
        (
            good[..good.len() - 100].to_vec(),
            "not a complete safetensors file",
        ),
        (
            with_header(&good, |h| h.replace("\"paper\"", "\"packed\"")),
            "packed",
        ),
        (
            with_header(&good, |h| {
                h.replace("\"version\":\"1\"", "\"version\":\"7\"")
            }),
            "version",
        ),
        (
            with_header(&good, |h| h.replace("\"theta\":\"", "\"theta\":\"-")),
            "theta",
        ),
        (
            with_header(&good, |h| h.replace("\"layers\":\"4\"", "\"layers\":\"5\"")),
            "layer5.src.linear1.weight is missing",
        ),
        (
            with_header(&good, |h| h.replace("[36,64]", "[64,36]")),
            "shape",
        ),
        (nan, "not finite"),
    ];
    for (file, problem) in cases {
        match PaperWeights::load(&file) {
            Err(Error::Weights(said)) => {
                assert!(said.contains(problem), "{said:?} does not say {problem:?}")
            }
            other => panic!("{problem}: {:?}", other.map(|_| "loaded")),
        }
    }
}
