//! Reading edge streams: text with `src dst [weight]` in each line, or binary pairs of
//! little-endian u32 (`.u32`); plain, `.gz` or `.zst`.

use std::io::{BufRead, BufReader, Read};
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use crane_agent::file::input::Input;
use crane_model::{Edge, Weighted};

/// Limit of the sum of all weights, so that the sums over both ends of all edges do not
/// overflow.
const MOST: u64 = 1 << 62;

/// Reads at most `limit` arrivals of a stream.
pub fn read(path: &Path, limit: usize) -> anyhow::Result<Vec<Weighted>> {
    let name = path.display();
    let input = Input::open(path).with_context(|| format!("cannot read {name}"))?;
    let mut input = BufReader::new(input);
    let stem = path.to_string_lossy();
    let stem = stem.trim_end_matches(".gz").trim_end_matches(".zst");
    let arrivals = if stem.ends_with(".u32") {
        binary(&mut input, limit)
    } else {
        text(&mut input, limit)
    };
    let arrivals = arrivals.with_context(|| name.to_string())?;
    if arrivals.is_empty() {
        bail!("{name}: the stream is empty");
    }
    Ok(arrivals)
}

fn binary(input: &mut dyn BufRead, limit: usize) -> anyhow::Result<Vec<Weighted>> {
    let mut bytes = Vec::new();
    input
        .take((limit as u64).saturating_mul(8))
        .read_to_end(&mut bytes)?;
    let (pairs, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        bail!(
            "ends inside a pair: {} bytes are not a multiple of 8",
            bytes.len()
        );
    }
    let edge = |pair: &[u8; 8]| {
        let [a, b, c, d, e, f, g, h] = *pair;
        Edge::new(
            u32::from_le_bytes([a, b, c, d]),
            u32::from_le_bytes([e, f, g, h]),
        )
    };
    Ok(pairs
        .iter()
        .map(|pair| Weighted::new(edge(pair), 1))
        .collect())
}

fn text(input: &mut dyn BufRead, limit: usize) -> anyhow::Result<Vec<Weighted>> {
    let (mut arrivals, mut sum) = (Vec::new(), 0u64);
    for (number, line) in input.lines().enumerate() {
        let at = || format!("line {}", number + 1);
        let no_text = || {
            format!(
                "{}: no text; captures are read by `crane-agent replay`",
                at()
            )
        };
        let line = line.with_context(no_text)?;
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        if arrivals.len() == limit {
            break;
        }
        let arrival = parse(line).with_context(at)?;
        sum = sum.saturating_add(arrival.weight);
        if sum > MOST {
            return Err(anyhow!("the weights add up to more than {MOST}")).with_context(at);
        }
        arrivals.push(arrival);
    }
    Ok(arrivals)
}

fn parse(line: &str) -> anyhow::Result<Weighted> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (src, dst, weight) = match fields[..] {
        [src, dst] => (src, dst, "1"),
        [src, dst, weight] => (src, dst, weight),
        _ => bail!("expected `src dst [weight]`, found {line:?}"),
    };
    let weight = weight
        .parse()
        .with_context(|| format!("weight {weight:?} is not a whole number"))?;
    Ok(Weighted::new(Edge::new(node(src)?, node(dst)?), weight))
}

fn node(text: &str) -> anyhow::Result<u32> {
    let address = || text.parse::<Ipv4Addr>().ok().map(u32::from);
    text.parse()
        .ok()
        .or_else(address)
        .with_context(|| format!("{text:?} is neither a number below 2^32 nor an IPv4 address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_and_errors_name_the_line() {
        let arrivals = text(&mut &b"# head\n1 2\n10.0.0.1 3 7 # why not\n\n"[..], 9).unwrap();
        assert_eq!(
            arrivals,
            [
                Weighted::new(Edge::new(1, 2), 1),
                Weighted::new(Edge::new(0x0a00_0001, 3), 7)
            ]
        );
        for (bad, said) in [
            ("1 2\n1\n", "line 2"),
            ("1 x\n", "\"x\""),
            ("1 2 -3\n", "-3"),
            ("1 2 3 4\n", "expected"),
        ] {
            let error = format!("{:#}", text(&mut bad.as_bytes(), 9).unwrap_err());
            assert!(error.contains(said), "{error}");
        }
        assert_eq!(text(&mut &b"1 2\n3 4\n5 6\n"[..], 2).unwrap().len(), 2);
    }

    #[test]
    fn an_incomplete_binary_pair_is_refused() {
        let bytes = [1u32, 2, 3, 4].map(u32::to_le_bytes).concat();
        assert_eq!(binary(&mut &bytes[..], 9).unwrap()[1].edge, Edge::new(3, 4));
        let error = binary(&mut &bytes[..13], 9).unwrap_err().to_string();
        assert!(error.contains("13 bytes"), "{error}");
    }
}
