//! Training is reproducible.
#![allow(clippy::unwrap_used)]

mod common;

use common::{lab, stderr};
use crane_lab::train::{Options, Trainer, packed};
use crane_model::PaperWeights;

fn options() -> Options {
    Options {
        layers: 2,
        steps: 6,
        largest: 300,
        largest_decoded: 400,
        ..Options::default()
    }
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

/// Errors in the options are reported before the training starts.
#[test]
fn options_that_are_not_possible_are_refused() {
    for (args, code, part) in [
        (&["--layers", "0"][..], 2, "1..=16"),
        (&["--theta", "1.5", "--steps", "0"], 1, "2 to 65536"),
    ] {
        let output = lab(&[&["train", "-o", "x"], args].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn the_packed_decoder_is_trained_reproducibly_and_improves() {
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
    assert!(error.contains("more, or the streams larger"), "{error}");
}
