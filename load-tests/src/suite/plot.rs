//! SVG drawings of the suite's plots, in the colours of [`svg_theme`](super::svg_theme).

use super::outcome::{Line, Plot};
use super::svg_theme::{GRID, GROUND, INK, line_color, themed};
use crate::digits::tick;
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

const SIZE: (u32, u32) = (760, 400);
const FONT: &str = "sans-serif";
/// Ratio of the highest to the lowest value from which on a vertical axis is logarithmic.
const MAGNITUDES: f64 = 20.0;
/// Room below the horizontal axis, for numbers and for labels, which stand upright.
const NUMBERS_PIXELS: u32 = 44;
const LABELS_PIXELS: u32 = 150;

/// Draws a plot as SVG.
///
/// # Errors
/// The plot has no point, or the library refuses.
pub fn svg(title: &str, plot: &Plot) -> Result<String> {
    let mut text = String::new();
    let is_log_y = plot.log_scale || has_magnitudes(plot);
    let (x, y) =
        bounds(plot, is_log_y).ok_or_else(|| anyhow!("{title}: there is nothing to plot"))?;
    let below = below_pixels(plot);
    {
        let size = (SIZE.0, SIZE.1 + below - NUMBERS_PIXELS);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&GROUND).map_err(refused)?;
        if plot.log_scale {
            draw(&area, title, plot, x.log_scale(), y.log_scale())?;
        } else if is_log_y {
            draw(&area, title, plot, x, y.log_scale())?;
        } else {
            draw(&area, title, plot, x, 0.0..y.end)?;
        }
        area.present().map_err(refused)?;
    }
    Ok(themed(&text))
}

/// Height below the horizontal axis.
const fn below_pixels(plot: &Plot) -> u32 {
    if plot.x_labels.is_empty() {
        NUMBERS_PIXELS
    } else {
        LABELS_PIXELS
    }
}

/// Returns true if the values are above 0 and so far apart that a linear axis would show the
/// highest only.
fn has_magnitudes(plot: &Plot) -> bool {
    let values = plot.lines.iter().flat_map(|line| &line.points);
    let (lowest, highest) = values.fold((f64::INFINITY, 0.0_f64), |(lowest, highest), point| {
        (lowest.min(point.1), highest.max(point.1))
    });
    lowest > 0.0 && lowest.is_finite() && highest / lowest >= MAGNITUDES
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

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
        .x_label_area_size(below_pixels(plot))
        .y_label_area_size(84)
        .build_cartesian_2d(x, y)
        .map_err(refused)?;
    let has_labels = !plot.x_labels.is_empty();
    chart
        .configure_mesh()
        .x_desc(&plot.x)
        .y_desc(&plot.y)
        .x_label_formatter(&|value| {
            if has_labels {
                String::new()
            } else {
                tick(*value)
            }
        })
        .y_label_formatter(&|value| tick(*value))
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .light_line_style(GROUND)
        .bold_line_style(GRID)
        .draw()
        .map_err(refused)?;
    for (place, line) in plot.lines.iter().enumerate() {
        let style = line_color(place).stroke_width(2);
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
            .background_style(GROUND.mix(0.85))
            .label_font((FONT, 13))
            .draw()
            .map_err(refused)?;
    }
    let (range, floor) = (chart.x_range(), chart.y_range().start);
    let labelled = plot.x_labels.iter().zip(1_u32..);
    let labelled = labelled.map(|(label, at)| (label, f64::from(at)));
    let shown = labelled.filter(|(_, at)| (range.start..=range.end).contains(at));
    for (label, at) in shown {
        draw_upright(area, label, chart.backend_coord(&(at, floor)))?;
    }
    Ok(())
}

/// Draws a text downwards from a point of the horizontal axis.
fn draw_upright(area: &Area<'_>, text: &str, (x, y): (i32, i32)) -> Result<()> {
    let font = (FONT, 12).into_font().transform(FontTransform::Rotate90);
    let style = font.color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
    area.draw_text(text, &style, (x, y + 8)).map_err(refused)
}

/// Ranges of all points, with a margin.
fn bounds(plot: &Plot, is_log_y: bool) -> Option<(Range<f64>, Range<f64>)> {
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
    let y_start = if is_log_y { y.0.max(1e-6) / 2.0 } else { 0.0 };
    let y_end = if y.1 > 0.0 { y.1 } else { 1.0 };
    // The names of the lines stand above them.
    let air = match (is_log_y, plot.lines.len()) {
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
            x_labels: Vec::new(),
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
    fn an_axis_of_values_that_are_magnitudes_apart_is_logarithmic() {
        let near = [(1.0, 5.0), (2.0, 9.0)];
        let far = [(1.0, 5.0), (2.0, 500.0)];
        let with_zero = [(1.0, 0.0), (2.0, 500.0)];
        for (points, expected) in [(&near, false), (&far, true), (&with_zero, false)] {
            assert_eq!(has_magnitudes(&plot(false, points)), expected, "{points:?}");
            svg("Cost", &plot(false, points)).unwrap();
        }
    }

    #[test]
    fn positions_have_their_labels() {
        let mut plot = plot(false, &[(1.0, 5.0), (2.0, 6.0)]);
        plot.x_labels = ["2026-11-20 abc", "2026-11-22 def"]
            .map(str::to_owned)
            .into();
        let svg = svg("Run by run", &plot).unwrap();
        for text in ["2026-11-20 abc", "2026-11-22 def", "rotate(90"] {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
    }

    #[test]
    fn a_plot_without_points_is_an_error() {
        assert!(svg("Cost", &plot(true, &[])).is_err());
    }
}
