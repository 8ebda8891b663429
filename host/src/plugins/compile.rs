//! What compiling may cost, counted before the compiler sees a byte: it cannot be interrupted.

use wasmparser::{Parser, Payload};
use wasmtime::component::Component;

use super::problem::Problem;
use crate::{base::Digest, config::CatalogConfig, engine::Engine};

/// The component, if compiling it stays within `bounds`. What is compiled already is not counted again. Blocking.
///
/// # Errors
/// It would take more, or is no component.
pub fn compile(
    engine: &Engine,
    digest: Digest,
    bytes: &[u8],
    bounds: &CatalogConfig,
) -> Result<Component, Problem> {
    if !engine.is_compiled(digest) {
        bounded(bytes, bounds)?;
    }
    uncounted(engine, digest, bytes)
}

/// The same for what was counted before.
pub(super) fn uncounted(engine: &Engine, digest: Digest, bytes: &[u8]) -> Result<Component, Problem> {
    engine.component(digest, bytes).map_err(|e| Problem::not_a_component(format!("{e:#}")))
}

/// Refuses what would take a compiler more time and memory than its size tells: one large function, more functions than
/// anybody writes, or more code. All modules of the component count together.
pub(super) fn bounded(bytes: &[u8], bounds: &CatalogConfig) -> Result<(), Problem> {
    let (mut depth, mut functions, mut code) = (0_usize, 0_u32, 0_usize);
    // What cannot be read is the engine's to refuse.
    for payload in Parser::new(0).parse_all(bytes).map_while(Result::ok) {
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CodeSectionEntry(body) => {
                let size = body.range().len();
                functions = functions.saturating_add(1);
                code = code.saturating_add(size);
                if size > bounds.max_function.as_usize() {
                    return Err(Problem::too_large(format!(
                        "a function of the component has {size} bytes of code, more than `max-function` allows ({})",
                        bounds.max_function
                    )));
                }
            }
            _ => {}
        }
        if functions > bounds.max_functions {
            let most = bounds.max_functions;
            return Err(Problem::too_large(format!(
                "the component has more functions than `max-functions` allows ({most})"
            )));
        }
        if code > bounds.max_code.as_usize() {
            let most = bounds.max_code;
            return Err(Problem::too_large(format!(
                "the functions of the component have more code than `max-code` allows ({most})"
            )));
        }
        if depth > CatalogConfig::NESTED {
            let most = CatalogConfig::NESTED;
            return Err(Problem::not_a_component(format!(
                "more than {most} components lie within each other"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::base::ByteSize;

    #[test]
    fn modules_count_together_and_each_bound_is_named() {
        let module = "(core module (func (drop (i64.const 1))) (func) (func))";
        let bytes = wat::parse_str(format!("(component {module} (component {module}))")).unwrap();
        let usual = CatalogConfig::default();
        bounded(&bytes, &usual).unwrap();
        // A body of 5 bytes (its locals, a constant, a drop, the end) and two of 2, twice.
        bounded(&bytes, &CatalogConfig { max_functions: 6, max_code: ByteSize(18), ..usual.clone() })
            .unwrap();
        for (bounds, name) in [
            (CatalogConfig { max_functions: 5, ..usual.clone() }, "max-functions"),
            (CatalogConfig { max_code: ByteSize(17), ..usual.clone() }, "max-code"),
            (CatalogConfig { max_function: ByteSize(4), ..usual }, "max-function"),
        ] {
            let problem = bounded(&bytes, &bounds).unwrap_err();
            assert_eq!(problem.code, "plugin_too_large");
            assert!(problem.reason.contains(&format!("`{name}`")), "{}", problem.reason);
        }
    }
}
