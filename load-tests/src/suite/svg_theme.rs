//! Colours of the suite's pictures, which follow the reader's light or dark scheme.
//!
//! A picture is drawn in the colours of a light page. A style sheet inside it replaces background,
//! text and grid where the reader's scheme is dark; it has a background of its own, so it can be
//! read on any page. The colours of lines have a contrast of 3.6 or more on both backgrounds.

use plotters::style::{Color, HSLColor, RGBColor};

/// Background.
pub const GROUND: RGBColor = RGBColor(255, 255, 255);
/// Texts and axes.
pub const INK: RGBColor = RGBColor(0, 0, 0);
/// Lines of the grid.
pub const GRID: RGBColor = RGBColor(225, 225, 225);

/// Colours of lines, in their order; neighbours can be told apart by the colour-blind.
const LINES: [RGBColor; 12] = [
    RGBColor(0x0a, 0x84, 0xc6),
    RGBColor(0xc7, 0x53, 0x00),
    RGBColor(0x00, 0x91, 0x6a),
    RGBColor(0xc5, 0x57, 0x8f),
    RGBColor(0x6f, 0x7c, 0x12),
    RGBColor(0x8a, 0x63, 0xd2),
    RGBColor(0x7b, 0x87, 0x94),
    RGBColor(0xd6, 0x45, 0x41),
    RGBColor(0x00, 0x87, 0x9c),
    RGBColor(0x9a, 0x75, 0x00),
    RGBColor(0xa8, 0x60, 0x32),
    RGBColor(0x4f, 0x6f, 0xe8),
];

/// Step between hues, as a share of the circle, that repeats none.
const HUE_STEP: f64 = 0.618_034;

/// Rules for dark schemes; an attribute of the drawing is weaker than a rule.
const STYLE: &str = "<style>@media (prefers-color-scheme: dark) {\
    [fill=\"#FFFFFF\"] { fill: #14181a } [stroke=\"#FFFFFF\"] { stroke: #14181a } \
    [fill=\"#000000\"] { fill: #e6e9ea } [stroke=\"#000000\"] { stroke: #9aa6ad } \
    [fill=\"#E1E1E1\"] { fill: #2d3539 } [stroke=\"#E1E1E1\"] { stroke: #2d3539 } \
    }</style>";

/// Colour of a line by its place; no two places have the same.
#[must_use]
pub fn line_color(place: usize) -> RGBColor {
    LINES.get(place).copied().unwrap_or_else(|| {
        let hue = (place as f64 * HUE_STEP).fract();
        let (red, green, blue) = HSLColor(hue, 0.65, 0.42).rgb();
        RGBColor(red, green, blue)
    })
}

/// Colour as an attribute of SVG.
#[must_use]
pub fn hex(color: RGBColor) -> String {
    format!("#{:02X}{:02X}{:02X}", color.0, color.1, color.2)
}

/// Adds the style sheet to a drawing.
#[must_use]
pub fn themed(svg: &str) -> String {
    match svg.split_once('>') {
        Some((head, rest)) => format!("{head}>{STYLE}{rest}"),
        None => svg.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Relative luminance by the Web Content Accessibility Guidelines.
    fn luminance(color: RGBColor) -> f64 {
        let part = |value: u8| {
            let value = f64::from(value) / 255.0;
            if value <= 0.039_28 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * part(color.0) + 0.7152 * part(color.1) + 0.0722 * part(color.2)
    }

    fn contrast(a: RGBColor, b: RGBColor) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn lines_can_be_read_on_light_and_dark_backgrounds() {
        let dark = RGBColor(0x14, 0x18, 0x1a);
        for color in LINES {
            for ground in [GROUND, dark] {
                let contrast = contrast(color, ground);
                assert!(contrast >= 3.6, "{}: {contrast}", hex(color));
            }
        }
    }

    #[test]
    fn no_colour_is_there_twice() {
        let colors: BTreeSet<_> = (0..60).map(|place| hex(line_color(place))).collect();
        assert_eq!(colors.len(), 60);
    }

    #[test]
    fn a_drawing_gets_rules_for_the_colours_that_it_has() {
        let svg = themed("<svg width=\"1\">\n<rect/></svg>");
        assert!(svg.starts_with("<svg width=\"1\"><style>"), "{svg}");
        assert!(svg.ends_with("</style>\n<rect/></svg>"), "{svg}");
        for color in [GROUND, INK, GRID] {
            assert!(svg.contains(&hex(color)), "{}", hex(color));
        }
    }
}
