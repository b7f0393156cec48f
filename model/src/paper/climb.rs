//! A batch on its way up through the layers.

use crate::paper::executor::Executor;
use crate::{Edge, Result, Settings, Writes};

/// Sees a layer's number, the edges that reached it, how much each was given,
/// and how much of it went up; the top layer carries nothing.
pub(crate) trait Watch<X: Executor>:
    FnMut(usize, &X::Edges, &X::Column, Option<&X::Column>)
{
}

impl<X: Executor, F> Watch<X> for F where F: FnMut(usize, &X::Edges, &X::Column, Option<&X::Column>) {}

/// Adds a batch to the layers and carries upwards.
pub(crate) fn climb<X: Executor>(
    x: &X,
    planes: &mut [X::Plane],
    settings: &Settings,
    edges: &[Edge],
    weight: Vec<f32>,
    watch: &mut impl Watch<X>,
) -> Result<()> {
    let top = planes.len() - 1;
    let (mut edges, arrived) = x.upload(edges, weight)?;
    let mut rest = None;
    for (layer, m) in planes.iter_mut().enumerate() {
        let weight = rest.as_ref().unwrap_or(&arrived);
        let codes = x.encode(layer, &edges)?;
        x.add(m, &codes, weight)?;
        x.saturate(m)?;
        if layer == top {
            watch(layer, &edges, weight, None);
            break;
        }
        let carried = settings.carry.take(x, m, &codes, weight, settings.theta)?;
        watch(layer, &edges, weight, Some(&carried));
        rest = match settings.writes {
            Writes::Every => Some(x.sum(&arrived, &carried)?),
            Writes::Bottom => match x.remaining(edges, carried)? {
                Some((remaining, carried)) => {
                    edges = remaining;
                    Some(carried)
                }
                None => break,
            },
        };
    }
    Ok(())
}
