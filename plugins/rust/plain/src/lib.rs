//! Plain functions: their WIT is a package of its own, and nothing here is Layby's.

use std::{fs, hint::black_box, thread, time::Duration};

use exports::acme::plain::shapes::{Drawing, NoArea, Point, Shape};

#[allow(missing_docs, unreachable_pub, clippy::all)]
mod bindings {
    wit_bindgen::generate!({ path: "wit", world: "plain" });
}
use bindings::*;

/// What the WIT says of all this.
#[cfg(target_family = "wasm")]
#[used]
#[unsafe(link_section = "package-docs")]
static DOCS: [u8; include_bytes!(concat!(env!("OUT_DIR"), "/package-docs")).len()] =
    *include_bytes!(concat!(env!("OUT_DIR"), "/package-docs"));

/// The component.
#[derive(Debug)]
pub struct Plain;

impl Guest for Plain {
    fn add_all(numbers: Vec<i64>) -> i64 {
        #[allow(clippy::expect_used)] // A trap is what the WIT promises.
        numbers.into_iter().try_fold(0_i64, i64::checked_add).expect("the sum has at most 64 bits")
    }

    fn halve(number: u64) -> Result<u64, NoHalf> {
        match number {
            0 => Err(NoHalf::Zero),
            odd if odd % 2 == 1 => Err(NoHalf::OddNumber),
            even => Ok(even / 2),
        }
    }

    fn divide(dividend: f64, divisor: f64) -> f64 {
        dividend / divisor
    }

    fn reverse_bytes(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.reverse();
        bytes
    }

    fn spin() {
        loop {
            black_box(0);
        }
    }

    fn fall(last_words: String) {
        panic!("{last_words}");
    }

    fn take_memory(mib: u32) -> u32 {
        let taken: Vec<Vec<u8>> = (0..mib).map(|_| vec![1; 1 << 20]).collect();
        black_box(&taken).len() as u32
    }

    fn nap(ms: u32) -> String {
        thread::sleep(Duration::from_millis(ms.into()));
        format!("slept {ms} ms")
    }

    fn read_file(path: String) -> Result<String, String> {
        fs::read_to_string(path).map_err(|e| e.to_string())
    }

    fn perhaps(well: bool) -> Result<(), ()> {
        if well { Ok(()) } else { Err(()) }
    }

    fn repeat(text: String, times: u32) -> Vec<String> {
        (0..times).map(|_| text.clone()).collect()
    }
}

impl exports::acme::plain::shapes::Guest for Plain {
    fn area_of(shape: Shape) -> Result<f64, NoArea> {
        match shape {
            Shape::Circle(circle) => Ok(std::f64::consts::PI * f64::from(circle.radius).powi(2)),
            Shape::CornerBox((a, b)) => Ok((a.x - b.x).abs() * (a.y - b.y).abs()),
            Shape::Empty => Err(NoArea { reason: "there is nothing".to_owned(), code: -7 }),
        }
    }

    fn redraw(drawing: Drawing) -> Drawing {
        drawing
    }

    fn middle(from_point: Point, to_point: Option<Point>) -> Point {
        let to = to_point.unwrap_or(Point { x: 0.0, y: 0.0 });
        Point { x: (from_point.x + to.x) / 2.0, y: (from_point.y + to.y) / 2.0 }
    }
}

#[cfg(target_family = "wasm")]
bindings::export!(Plain with_types_in bindings);
