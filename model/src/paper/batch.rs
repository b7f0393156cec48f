//! Storing a batch: adding it to the bottom layer and carrying it upwards.

use crate::paper::executor::Executor;
use crate::{Edge, HierarchySettings, Result, Writes};

/// Called for every layer with its number, the edges that reached it, what each of them
/// added, and what each of them carried to the next layer. The last is `None` for the top
/// layer.
pub trait LayerObserver<X: Executor>:
    FnMut(usize, &X::Edges, &X::Column, Option<&X::Column>)
{
}

impl<X: Executor, F> LayerObserver<X> for F where
    F: FnMut(usize, &X::Edges, &X::Column, Option<&X::Column>)
{
}

/// Adds a batch to the layers and carries upwards.
pub(crate) fn store_batch<X: Executor>(
    x: &X,
    planes: &mut [X::Plane],
    settings: &HierarchySettings,
    edges: &[Edge],
    weight: Vec<f32>,
    observer: &mut impl LayerObserver<X>,
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
            observer(layer, &edges, weight, None);
            break;
        }
        let carried = settings.carry.take(x, m, &codes, weight, settings.theta)?;
        observer(layer, &edges, weight, Some(&carried));
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
