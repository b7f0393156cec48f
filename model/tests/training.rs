//! Training is reproducible, and weight files are checked when loaded.
#![allow(clippy::unwrap_used)]

use crane_model::train::{Options, Trainer, packed};
use crane_model::{Error, PaperWeights};

fn options() -> Options {
    Options {
        layers: 2,
        steps: 6,
        largest: 300,
        largest_decoded: 400,
        ..Options::default()
    }
}

fn weights() -> Vec<u8> {
    Trainer::new(options()).unwrap().finish().unwrap()
}

#[test]
fn an_interrupted_training_ends_with_the_same_weights() {
    let mut whole = Trainer::new(options()).unwrap();
    while !whole.is_done() {
        whole.step().unwrap();
    }
    let mut first = Trainer::new(options()).unwrap();
    for _ in 0..3 {
        first.step().unwrap();
    }
    let mut second = Trainer::new(options()).unwrap();
    second.resume(&first.checkpoint().unwrap()).unwrap();
    while !second.is_done() {
        second.step().unwrap();
    }
    let load = |trainer: &mut Trainer| PaperWeights::load(&trainer.finish().unwrap()).unwrap();
    assert_eq!(load(&mut whole), load(&mut second));
    assert!(second.resume(b"something else").is_err());
}

#[test]
fn training_makes_codes_collide_less() {
    let options = Options {
        layers: 1,
        steps: 400,
        largest: 1500,
        largest_decoded: 1500,
        ..Options::default()
    };
    let mut trainer = Trainer::new(options).unwrap();
    let mut validations = Vec::new();
    while !trainer.is_done() {
        validations.extend(trainer.step().unwrap().validation);
    }
    let after = *validations.last().unwrap();
    let before = Trainer::new(Options {
        layers: 1,
        largest: 1500,
        ..Options::default()
    })
    .unwrap()
    .validate()
    .unwrap();
    assert!(after < 0.8 * before, "{before} became {after}");
}

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
    let good = weights();
    let loaded = PaperWeights::load(&good).unwrap();
    assert_eq!((loaded.layers.len(), loaded.theta), (2, options().theta));

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
            with_header(&good, |h| h.replace("\"layers\":\"2\"", "\"layers\":\"3\"")),
            "layer3.src.linear1.weight is missing",
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

#[test]
fn the_packed_decoder_is_trained_reproducibly_and_better_than_not_at_all() {
    let options = packed::Options {
        streams: 30,
        steps: 40,
        largest: 5000,
        ..packed::Options::default()
    };
    let loss = |bytes: &[u8]| {
        let header = safetensors::SafeTensors::read_metadata(bytes).unwrap().1;
        let metadata = header.metadata().clone().unwrap();
        metadata["validation"].parse::<f64>().unwrap()
    };
    let trained = packed::train(&options, |_| ()).unwrap();
    let again = packed::train(&options, |_| ()).unwrap();
    let load = |bytes: &[u8]| crane_model::PackedWeights::load(bytes).unwrap();
    assert!(
        load(&trained) == load(&again),
        "the same seed, other weights"
    );
    let steps = 1;
    let untrained = packed::train(
        &packed::Options {
            steps,
            ..options.clone()
        },
        |_| (),
    )
    .unwrap();
    let (after, before) = (loss(&trained), loss(&untrained));
    assert!(after < 0.8 * before, "{before} became {after}");

    let none = packed::Options {
        streams: 0,
        ..options
    };
    let error = packed::train(&none, |_| ()).unwrap_err().to_string();
    assert!(error.contains("more, or larger ones"), "{error}");
}
