//! SVG drawings of the suite's plots.
//!
//! The background is drawn, so that a plot can be read on a dark page as well.

use super::outcome::{Line, Plot};
use crate::digits::tick;
use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use std::ops::Range;

const SIZE: (u32, u32) = (760, 400);
const FONT: &str = "sans-serif";
/// Colours that colour-blind readers can tell apart, too (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(60, 60, 60),
];

/// Draws a plot as SVG.
///
/// # Errors
/// The plot has no point, or the library refuses.
pub fn svg(title: &str, plot: &Plot) -> Result<String> {
    let mut text = String::new();
    let (x, y) = bounds(plot).ok_or_else(|| anyhow!("{title}: there is nothing to plot"))?;
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(refused)?;
        if plot.log_scale {
            draw(&area, title, plot, x.log_scale(), y.log_scale())?;
        } else {
            draw(&area, title, plot, x, 0.0..y.end)?;
        }
        area.present().map_err(refused)?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw<X, Y>(area: &Area<'_>, title: &str, plot: &Plot, x: X, y: Y) -> Result<()>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 18))
        .margin(14)
        .margin_right(40)
        .x_label_area_size(44)
        .y_label_area_size(84)
        .build_cartesian_2d(x, y)
        .map_err(refused)?;
    chart
        .configure_mesh()
        .x_desc(&plot.x)
        .y_desc(&plot.y)
        .x_label_formatter(&|value| tick(*value))
        .y_label_formatter(&|value| tick(*value))
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(225, 225, 225))
        .draw()
        .map_err(refused)?;
    for (line, colour) in plot.lines.iter().zip(COLOURS.iter().copied().cycle()) {
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), style).point_size(3))
            .map_err(refused)?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    if plot.lines.len() > 1 {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .label_font((FONT, 13))
            .draw()
            .map_err(refused)?;
    }
    Ok(())
}

/// Ranges of all points, with a margin.
fn bounds(plot: &Plot) -> Option<(Range<f64>, Range<f64>)> {
    let points = || plot.lines.iter().flat_map(|line: &Line| &line.points);
    let range = |values: &mut dyn Iterator<Item = f64>| {
        let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| {
            (a.min(value), b.max(value))
        });
        least.is_finite().then_some((least, most))
    };
    let x = range(&mut points().map(|point| point.0))?;
    let y = range(&mut points().map(|point| point.1))?;
    // A single run is a point, but an axis needs a length.
    let x_end = if x.1 > x.0 { x.1 } else { x.0 * 2.0 + 1.0 };
    let y_start = if plot.log_scale {
        y.0.max(1e-6) / 2.0
    } else {
        0.0
    };
    let y_end = if y.1 > 0.0 { y.1 } else { 1.0 };
    // The names of the lines stand above them.
    let air = match (plot.log_scale, plot.lines.len()) {
        (true, ..=1) => 2.0,
        (true, _) => 30.0,
        (false, ..=1) => 1.2,
        (false, lines) => 1.2 + 0.1 * lines as f64,
    };
    Some((x.0..x_end, y_start..y_end * air))
}

fn refused(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(log_scale: bool, points: &[(f64, f64)]) -> Plot {
        Plot {
            x: "connections".to_owned(),
            y: "µs".to_owned(),
            log_scale,
            lines: ["ours", "theirs"]
                .map(|name| Line {
                    name: name.to_owned(),
                    points: points.to_vec(),
                })
                .into(),
        }
    }

    #[test]
    fn lines_axes_and_names_are_drawn() {
        for log_scale in [false, true] {
            for points in [
                &[(1.0, 5.0)][..],
                &[(1.0, 5.0), (4096.0, 0.5)],
                &[(1.0, 0.0)],
            ] {
                let svg = svg("Cost", &plot(log_scale, points)).unwrap();
                assert!(svg.starts_with("<svg"));
                for text in ["Cost", "connections", "µs", "ours", "theirs"] {
                    assert!(svg.contains(text), "{text} is not in {svg}");
                }
            }
        }
    }

    #[test]
    fn a_plot_without_points_is_an_error() {
        assert!(svg("Cost", &plot(true, &[])).is_err());
    }
}
