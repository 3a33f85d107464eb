//! SVG drawings of plots.
//!
//! Each plot is drawn twice, wide and narrow, and the page shows the one that fits: a wide plot
//! scaled down would have labels too small to read. The colours are those of a light page. The
//! style sheet replaces them by the colours of the reader's scheme, one for each [`Ink`].

use super::axis::Axis;
use anyhow::{Context, Result};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::Ranged;
use plotters::drawing::DrawingArea;
use plotters::prelude::{
    ChartBuilder, ChartContext, Circle, DashedLineSeries, IntoDrawingArea, LineSeries, Rectangle,
    SVGBackend,
};
use plotters::style::{Color, RGBColor, ShapeStyle, TRANSPARENT};

/// Size of the wide drawing; the narrow one is below, and the page may scale it down a bit more.
const WIDE: Size = Size {
    pixels: (920, 280),
    label_pixels: 15.0,
};
const NARROW: Size = Size {
    pixels: (380, 260),
    label_pixels: 17.0,
};
const LEFT_PIXELS: u32 = 62;
const BELOW_PIXELS: u32 = 26;
const DASH_PIXELS: u32 = 5;

#[derive(Clone, Copy)]
struct Size {
    pixels: (u32, u32),
    label_pixels: f64,
}

/// A plot with its lines.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Heading of the plot.
    pub title: &'static str,
    /// Sentence about the meaning of the axes.
    pub about: &'static str,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Lines of the plot; later ones are drawn on top.
    pub lines: Vec<Line>,
    /// End of the warm-up on the horizontal axis; the part left of it is shaded.
    pub warm_up_end: Option<f64>,
}

/// A line of a plot.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name in the key.
    pub name: String,
    /// Colour of the line.
    pub ink: Ink,
    /// True for a dashed line.
    pub dashed: bool,
    /// Pieces of the line, each with its points; they are not joined.
    pub pieces: Vec<Vec<(f64, f64)>>,
}

/// Colours by purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the first to the fourth line")]
pub enum Ink {
    First,
    Second,
    Third,
    Fourth,
    /// Lines of the grid.
    Grid,
    /// Background of the warm-up.
    Shade,
    /// Labels.
    Label,
}

impl Ink {
    /// Colour in the SVG; the style sheet identifies it by this value.
    const fn color(self) -> RGBColor {
        match self {
            Self::First => RGBColor(0x1f, 0x5f, 0xd6),
            Self::Second => RGBColor(0xc2, 0x55, 0x00),
            Self::Third => RGBColor(0xa0, 0x1c, 0x6b),
            Self::Fourth => RGBColor(0x7a, 0x82, 0x8e),
            Self::Grid => RGBColor(0xe2, 0xe4, 0xe0),
            Self::Shade => RGBColor(0xf0, 0xf1, 0xee),
            Self::Label => RGBColor(0x5b, 0x66, 0x70),
        }
    }

    /// CSS class of the colour.
    #[must_use]
    pub const fn class(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Second => "second",
            Self::Third => "third",
            Self::Fourth => "fourth",
            Self::Grid => "grid",
            Self::Shade => "shade",
            Self::Label => "label",
        }
    }
}

impl Line {
    /// CSS class of the line's entry in the key.
    #[must_use]
    pub fn class(&self) -> String {
        let dashed = if self.dashed { " dashed" } else { "" };
        format!("{}{dashed}", self.ink.class())
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

impl Plot {
    /// Draws the plot for wide screens.
    ///
    /// # Errors
    /// The plot cannot be drawn.
    pub fn wide(&self) -> Result<String> {
        self.svg(WIDE)
    }

    /// Draws the plot for narrow screens.
    ///
    /// # Errors
    /// The plot cannot be drawn.
    pub fn narrow(&self) -> Result<String> {
        self.svg(NARROW)
    }

    fn svg(&self, size: Size) -> Result<String> {
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, size.pixels).into_drawing_area();
        self.draw(&area, size.label_pixels)
            .and_then(|()| Ok(area.present()?))
            .with_context(|| format!("cannot draw {:?}", self.title))?;
        drop(area);
        Ok(svg)
    }

    fn draw(&self, area: &Area<'_>, label_pixels: f64) -> Result<()> {
        let mut chart = ChartBuilder::on(area)
            .margin_top(10)
            .margin_right(22)
            .x_label_area_size(BELOW_PIXELS)
            .y_label_area_size(LEFT_PIXELS)
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        self.draw_warm_up(&mut chart)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(Ink::Grid.color())
            .light_line_style(TRANSPARENT)
            .axis_style(Ink::Grid.color())
            .label_style(("sans-serif", label_pixels, &Ink::Label.color()))
            .x_label_formatter(&|at| self.x.label(*at).to_owned())
            .y_label_formatter(&|at| self.y.label(*at).to_owned())
            .draw()?;
        for line in &self.lines {
            draw_line(&mut chart, line)?;
        }
        Ok(())
    }

    fn draw_warm_up(&self, chart: &mut Chart<'_, '_>) -> Result<()> {
        let Some(end) = self.warm_up_end else {
            return Ok(());
        };
        let (x, y) = (self.x.range(), self.y.range());
        if end > x.start {
            let corners = [(x.start, y.start), (end.min(x.end), y.end)];
            let shade = Rectangle::new(corners, Ink::Shade.color().filled());
            chart.draw_series([shade])?;
        }
        Ok(())
    }
}

fn draw_line(chart: &mut Chart<'_, '_>, line: &Line) -> Result<()> {
    let style: ShapeStyle = line.ink.color().stroke_width(2);
    for piece in &line.pieces {
        let points = piece.iter().copied();
        if let [point] = piece.as_slice() {
            chart.draw_series([Circle::new(*point, 3, line.ink.color().filled())])?;
        } else if line.dashed {
            let dashes = DashedLineSeries::new(points, DASH_PIXELS, DASH_PIXELS, style);
            chart.draw_series(dashes)?;
        } else {
            chart.draw_series(LineSeries::new(points, style))?;
        }
    }
    Ok(())
}
