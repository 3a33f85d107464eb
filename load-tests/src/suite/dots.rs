//! Picture of one value of several servers: a dot at the median and a line over the interval, on a
//! logarithmic axis.

use super::interval::Interval;
use super::svg_theme::{GRID, GROUND, INK, hex, line_color, themed};
use crate::digits::{grouped, tick};
use anyhow::{Result, ensure};
use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const LABELS: f64 = 250.0;
const VALUES: f64 = 90.0;
const HEAD: f64 = 46.0;
const ROW: f64 = 30.0;
const FOOT: f64 = 46.0;
/// Room beside the lowest and the highest value, as a factor.
const AIR: f64 = 1.4;

/// Row of a picture.
#[derive(Clone, Debug)]
pub struct Dot {
    /// Name of the row.
    pub name: String,
    /// Value with its interval.
    pub value: Interval,
}

/// Draws a picture as SVG; the first row stands out.
///
/// # Errors
/// No row has a value above 0.
pub fn svg(title: &str, axis: &str, dots: &[Dot]) -> Result<String> {
    let drawn: Vec<&Dot> = dots.iter().filter(|dot| dot.value.lowest > 0.0).collect();
    ensure!(!drawn.is_empty(), "{title}: there is nothing to draw");
    let lowest = drawn
        .iter()
        .map(|it| it.value.lowest)
        .fold(f64::INFINITY, f64::min);
    let highest = drawn.iter().map(|it| it.value.highest).fold(0.0, f64::max);
    let scale = Scale::new(lowest / AIR, highest * AIR);
    let bottom = HEAD + ROW * drawn.len() as f64;
    let mut text = head(title, bottom + FOOT);
    for (name, value) in scale.ticks() {
        let at = scale.x(value);
        line(&mut text, (at, HEAD), (at, bottom), &hex(GRID), 1.0);
        label(&mut text, (at, bottom + 18.0), "middle", 13.0, &name);
    }
    let middle = (LABELS + WIDTH - VALUES) / 2.0;
    label(&mut text, (middle, bottom + 38.0), "middle", 13.0, axis);
    for (place, dot) in drawn.iter().enumerate() {
        let y = HEAD + ROW * (place as f64 + 0.5);
        let color = hex(line_color(place.min(1)));
        let value = dot.value;
        line(
            &mut text,
            (scale.x(value.lowest), y),
            (scale.x(value.highest), y),
            &color,
            3.0,
        );
        let _ = writeln!(
            text,
            "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"6\" fill=\"{color}\"/>",
            scale.x(value.median)
        );
        label(&mut text, (LABELS - 12.0, y + 4.0), "end", 13.0, &dot.name);
        let median = grouped(value.median);
        label(&mut text, (WIDTH - 12.0, y + 4.0), "end", 13.0, &median);
    }
    text.push_str("</svg>\n");
    Ok(themed(&text))
}

/// Logarithmic axis between the labels and the values.
struct Scale {
    lowest: f64,
    highest: f64,
}

impl Scale {
    const fn new(lowest: f64, highest: f64) -> Self {
        Self { lowest, highest }
    }

    fn x(&self, value: f64) -> f64 {
        let share = (value / self.lowest).ln() / (self.highest / self.lowest).ln();
        LABELS + share * (WIDTH - VALUES - LABELS)
    }

    /// Powers of ten on the axis; with one at most, halves and fifths of them as well.
    fn ticks(&self) -> Vec<(String, f64)> {
        let steps = |factors: &[f64]| {
            let first = self.lowest.log10().floor();
            let powers = (0..20_u8).map(|step| 10_f64.powf(first + f64::from(step)));
            let values = powers.flat_map(|power| factors.iter().map(move |it| power * it));
            let shown = values.filter(|it| (self.lowest..=self.highest).contains(it));
            shown.map(|it| (tick(it), it)).collect::<Vec<_>>()
        };
        let powers = steps(&[1.0]);
        if powers.len() > 1 {
            powers
        } else {
            steps(&[1.0, 2.0, 5.0])
        }
    }
}

fn head(title: &str, height: f64) -> String {
    let mut text = format!(
        "<svg width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         xmlns=\"http://www.w3.org/2000/svg\">\n\
         <rect x=\"0\" y=\"0\" width=\"{WIDTH}\" height=\"{height}\" fill=\"{}\"/>\n",
        hex(GROUND)
    );
    label(&mut text, (WIDTH / 2.0, 26.0), "middle", 15.0, title);
    text
}

// Writing to a String does not fail.
fn line(text: &mut String, from: (f64, f64), to: (f64, f64), color: &str, width: f64) {
    let _ = writeln!(
        text,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{color}\" \
         stroke-width=\"{width}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn label(text: &mut String, at: (f64, f64), anchor: &str, size: f64, label: &str) {
    let label = label.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        text,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" font-family=\"sans-serif\" \
         font-size=\"{size}\" fill=\"{}\">{label}</text>",
        at.0,
        at.1,
        hex(INK)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(name: &str, values: &[f64]) -> Dot {
        Dot {
            name: name.to_owned(),
            value: Interval::of(values),
        }
    }

    #[test]
    fn rows_values_and_powers_of_ten_are_drawn() {
        let dots = [
            dot("ours", &[700_000.0, 690_000.0]),
            dot("a & b", &[4_000.0]),
            dot("nothing", &[0.0]),
        ];
        let svg = svg("Rates", "events/s", &dots).unwrap();
        let parts = [
            "Rates",
            "events/s",
            "ours",
            "695 000",
            "a &amp; b",
            "4 000",
            "100 000",
        ];
        for part in parts {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
        assert!(!svg.contains("nothing"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2);
    }

    #[test]
    fn values_of_one_magnitude_have_labels_too() {
        let svg = svg("Rates", "events/s", &[dot("ours", &[40_000.0])]).unwrap();
        assert!(svg.contains("50 000"), "{svg}");
    }

    #[test]
    fn a_picture_without_values_is_an_error() {
        assert!(svg("Rates", "events/s", &[dot("ours", &[])]).is_err());
    }
}
