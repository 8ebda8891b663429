//! Types and values at random: real types of wasmtime, from components that import functions of them, and values
//! that go through a guest's memory and back.

use proptest::prelude::*;
use wasmtime::{
    Engine, Store,
    component::{Component, Linker},
};

use super::super::{docs::Docs, json::read, *};

/// A type of WIT.
#[derive(Clone, Debug)]
enum Wit {
    Plain(&'static str),
    List(Box<Wit>),
    Option(Box<Wit>),
    Tuple(Vec<Wit>),
    Result(Option<Box<Wit>>, Option<Box<Wit>>),
    Record(Vec<Wit>),
    Variant(Vec<Option<Wit>>),
    Enum(usize),
    Flags(usize),
}

const PLAIN: [&str; 13] =
    ["bool", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f32", "f64", "char", "string"];

fn wit() -> impl Strategy<Value = Wit> {
    let leaf = prop_oneof![
        6 => proptest::sample::select(&PLAIN[..]).prop_map(Wit::Plain),
        1 => (1..40_usize).prop_map(Wit::Enum),
        1 => (1..32_usize).prop_map(Wit::Flags),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        let payload = proptest::option::of(inner.clone());
        let boxed = payload.clone().prop_map(|p| p.map(Box::new));
        prop_oneof![
            2 => inner.clone().prop_map(|w| Wit::List(Box::new(w))),
            2 => inner.clone().prop_map(|w| Wit::Option(Box::new(w))),
            1 => proptest::collection::vec(inner.clone(), 1..5).prop_map(Wit::Tuple),
            1 => (boxed.clone(), boxed).prop_map(|(ok, err)| Wit::Result(ok, err)),
            2 => proptest::collection::vec(inner, 1..5).prop_map(Wit::Record),
            1 => proptest::collection::vec(payload, 1..5).prop_map(Wit::Variant),
        ]
    })
}

/// The text of a component; types with names are imported, as WIT's are.
#[derive(Default)]
struct Wat {
    types: String,
    count: usize,
}

impl Wat {
    fn ty(&mut self, wit: &Wit) -> String {
        match wit {
            Wit::Plain(name) => (*name).to_owned(),
            Wit::List(inner) => format!("(list {})", self.ty(inner)),
            Wit::Option(inner) => format!("(option {})", self.ty(inner)),
            Wit::Tuple(items) => {
                let items: Vec<_> = items.iter().map(|item| self.ty(item)).collect();
                format!("(tuple {})", items.join(" "))
            }
            Wit::Result(ok, err) => {
                let ok = ok.as_ref().map_or_else(String::new, |ok| self.ty(ok));
                let err = err.as_ref().map_or_else(String::new, |err| format!("(error {})", self.ty(err)));
                format!("(result {ok} {err})")
            }
            Wit::Record(fields) => {
                let each = fields.iter().enumerate();
                let fields: String =
                    each.map(|(n, f)| format!("(field {:?} {})", name(n), self.ty(f))).collect();
                self.named(&format!("(record {fields})"))
            }
            Wit::Variant(cases) => {
                let each = cases.iter().enumerate();
                let cases: String = each
                    .map(|(n, c)| {
                        let payload = c.as_ref().map_or_else(String::new, |c| self.ty(c));
                        format!("(case {:?} {payload})", name(n))
                    })
                    .collect();
                self.named(&format!("(variant {cases})"))
            }
            Wit::Enum(count) => self.named(&format!("(enum {})", names(*count))),
            Wit::Flags(count) => self.named(&format!("(flags {})", names(*count))),
        }
    }

    fn named(&mut self, ty: &str) -> String {
        let n = self.count;
        self.count += 1;
        self.types.push_str(&format!("(type $d{n} {ty}) (import \"t{n}\" (type $t{n} (eq $d{n})))\n"));
        format!("$t{n}")
    }
}

fn name(n: usize) -> String {
    if n.is_multiple_of(2) { format!("A{n}-b") } else { format!("some-name{n}") }
}

fn names(count: usize) -> String {
    (0..count).map(|n| format!("{:?} ", name(n))).collect()
}

/// A component whose function `f` calls what it imports, and gives on what that gives. Sixteen more parameters and two
/// more results keep all of them in memory, so that one guest fits every type.
fn component(wit: &Wit) -> Vec<u8> {
    let mut wat = Wat::default();
    let ty = wat.ty(wit);
    let more: String = (0..16).map(|n| format!("(param \"p{n}\" u8) ")).collect();
    let kind = format!("(param \"v\" {ty}) {more} (result (tuple {ty} u8 u8))");
    let text = format!(
        r#"(component
            {types}
            (import "id" (func $id {kind}))
            (core module $memory
                (memory (export "memory") 64)
                (global $next (mut i32) (i32.const 1048576))
                (func (export "realloc") (param i32 i32 i32 i32) (result i32)
                    (global.set $next (i32.and (i32.add (global.get $next) (i32.const 15)) (i32.const -16)))
                    (global.get $next)
                    (global.set $next (i32.add (global.get $next) (local.get 3)))))
            (core instance $mem (instantiate $memory))
            (core func $lowered (canon lower (func $id) (memory (core memory $mem "memory")) (realloc (core func $mem "realloc"))))
            (core module $main
                (import "host" "id" (func $id (param i32 i32)))
                (func (export "f") (param i32) (result i32)
                    (call $id (local.get 0) (i32.const 1024))
                    (i32.const 1024)))
            (core instance $main (instantiate $main (with "host" (instance (export "id" (func $lowered))))))
            (func $f {kind}
                (canon lift (core func $main "f") (memory (core memory $mem "memory")) (realloc (core func $mem "realloc"))))
            (export "f" (func $f)))"#,
        types = wat.types
    );
    wat::parse_str(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Numbers that look random; the same for the same start.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x ^ (x >> 32)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % most as u64).unwrap()
    }

    /// Any bits, or some near the ends.
    fn bits(&mut self) -> u64 {
        let edge =
            [0, 1, u64::MAX, i64::MAX as u64, i64::MIN as u64, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, 127];
        if self.below(3) == 0 { edge[self.below(edge.len())] } else { self.next() >> self.below(64) }
    }

    fn float(&mut self) -> f64 {
        let edge =
            [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE, 0.1, 5e-324];
        match self.below(3) {
            0 => edge[self.below(edge.len())],
            1 => f64::from_bits(self.next()),
            _ => self.next() as i32 as f64 / 8.0,
        }
    }

    fn float32(&mut self) -> f32 {
        let edge = [f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45, 0.1, -0.0, f32::NAN, f32::INFINITY];
        if self.below(2) == 0 { edge[self.below(edge.len())] } else { f32::from_bits(self.next() as u32) }
    }

    fn char(&mut self) -> char {
        let edge = ['\0', '"', '\\', '\n', 'ä', '€', '😀', '\u{10ffff}', '\u{202e}', 'a'];
        edge[self.below(edge.len())]
    }

    fn payload(&mut self, ty: Option<Type>) -> Option<Box<Val>> {
        ty.map(|ty| Box::new(self.value(&ty)))
    }

    fn value(&mut self, ty: &Type) -> Val {
        match ty {
            Type::Bool => Val::Bool(self.below(2) == 0),
            Type::S8 => Val::S8(self.bits() as i8),
            Type::U8 => Val::U8(self.bits() as u8),
            Type::S16 => Val::S16(self.bits() as i16),
            Type::U16 => Val::U16(self.bits() as u16),
            Type::S32 => Val::S32(self.bits() as i32),
            Type::U32 => Val::U32(self.bits() as u32),
            Type::S64 => Val::S64(self.bits() as i64),
            Type::U64 => Val::U64(self.bits()),
            Type::Float32 => Val::Float32(self.float32()),
            Type::Float64 => Val::Float64(self.float()),
            Type::Char => Val::Char(self.char()),
            Type::String => Val::String((0..self.below(6)).map(|_| self.char()).collect()),
            Type::List(list) => Val::List((0..self.below(4)).map(|_| self.value(&list.ty())).collect()),
            Type::Tuple(tuple) => Val::Tuple(tuple.types().map(|ty| self.value(&ty)).collect()),
            Type::Record(record) => {
                Val::Record(record.fields().map(|f| (f.name.to_owned(), self.value(&f.ty))).collect())
            }
            Type::Variant(variant) => {
                let case = variant.cases().nth(self.below(variant.cases().len())).unwrap();
                Val::Variant(case.name.to_owned(), self.payload(case.ty))
            }
            Type::Enum(cases) => {
                Val::Enum(cases.names().nth(self.below(cases.names().len())).unwrap().to_owned())
            }
            Type::Option(option) => {
                let some = (self.below(3) > 0).then(|| option.ty());
                Val::Option(self.payload(some))
            }
            Type::Result(result) if self.below(2) == 0 => Val::Result(Ok(self.payload(result.ok()))),
            Type::Result(result) => Val::Result(Err(self.payload(result.err()))),
            Type::Flags(flags) => {
                Val::Flags(flags.names().filter(|_| self.below(2) == 0).map(str::to_owned).collect())
            }
            other => panic!("{other:?} was not made"),
        }
    }

    /// Changes one place of `json`.
    fn spoil(&mut self, json: &mut Value) {
        let wrong = |dice: &mut Self| {
            let all = json!([
                null, true, -1, 0, 3.5, 1e30, 256, 65536, "", "x", "ä€", "NaN", "18446744073709551616", "-1", "007",
                [], [null], {}, {"ok": null}, {"some": null}, 1.0, u64::MAX, i64::MIN, "AAA", "A0_b", "A0-b",
                1_u64 << 53, (1_i64 << 53) - 1, -1_i64 << 53, -9.223_372_036_854_776e18, 1.8446744073709552e19
            ]);
            all[dice.below(31)].clone()
        };
        match json {
            Value::Array(items) if !items.is_empty() && self.below(5) > 0 => {
                let at = self.below(items.len());
                match self.below(8) {
                    0 => drop(items.remove(at)),
                    1 => items.push(items[at].clone()),
                    _ => self.spoil(&mut items[at]),
                }
            }
            Value::Object(map) if !map.is_empty() && self.below(5) > 0 => {
                let key = map.keys().nth(self.below(map.len())).unwrap().clone();
                match self.below(8) {
                    0 => drop(map.remove(&key)),
                    1 => drop(map.insert("another".to_owned(), wrong(self))),
                    _ => self.spoil(&mut map[&key]),
                }
            }
            other => *other = wrong(self),
        }
    }
}

fn validator(schema: Map<String, Value>) -> jsonschema::Validator {
    jsonschema::draft202012::new(&Value::Object(schema)).unwrap()
}

/// True where `path`, as an error begins with, leads to a string.
fn at_string(error: &str, json: &Value) -> bool {
    let path = error.split(": ").next().unwrap();
    let path = if path == "(root)" { "" } else { path };
    json.pointer(path).unwrap_or_else(|| panic!("no {path} in {json}")).is_string()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn values_survive_json_and_a_guest(wit in wit(), seed in any::<u64>()) {
        let engine = Engine::default();
        let bytes = component(&wit);
        let component = Component::new(&engine, &bytes).unwrap();
        let mut linker = Linker::<()>::new(&engine);
        linker.root().func_new("id", |_, _, given, results| {
            results[0] = Val::Tuple(vec![given[0].clone(), Val::U8(0), Val::U8(0)]);
            Ok(())
        }).unwrap();
        let mut store = Store::new(&engine, ());
        let instance = linker.instantiate(&mut store, &component).unwrap();
        let f = instance.get_func(&mut store, "f").unwrap();
        let ty = f.ty(&store).params().next().unwrap().1;
        let docs = Docs::read(&component, &bytes);
        let shape = Reader::new(&docs).read(&ty).unwrap();
        let schemas = [For::Arguments, For::Results].map(|what| validator(schema::schema(&shape, what)));

        let mut dice = Dice(seed);
        for _ in 0..12 {
            let value = dice.value(&ty);
            let mut text = Text::new(usize::MAX);
            text.value(&shape, &value).unwrap();
            let text = text.done();
            let json: Value = serde_json::from_str(&text).unwrap();
            for schema in &schemas {
                prop_assert!(schema.is_valid(&json), "{json} does not fit {:?}", schema.validate(&json));
            }
            let back = read(&shape, &json, &mut Path::default()).unwrap();
            prop_assert_eq!(&back, &value, "{}", json);

            let mut given = vec![back];
            given.extend((0..16).map(Val::U8));
            let mut results = [Val::Bool(false)];
            f.call(&mut store, &given, &mut results).unwrap();
            let [Val::Tuple(results)] = results else { panic!("no tuple") };
            prop_assert_eq!(&results[0], &value);
            // A text that may have one byte less is not made.
            let mut short = Text::new(text.len() - 1);
            prop_assert_eq!(short.value(&shape, &value), Err(Unwritten::TooLong));

            for _ in 0..8 {
                let mut spoilt = json.clone();
                dice.spoil(&mut spoilt);
                match (schemas[0].is_valid(&spoilt), read(&shape, &spoilt, &mut Path::default())) {
                    (true, Ok(value)) => {
                        let mut text = Text::new(usize::MAX);
                        text.value(&shape, &value).unwrap();
                        let again: Value = serde_json::from_str(&text.done()).unwrap();
                        prop_assert_eq!(read(&shape, &again, &mut Path::default()).unwrap(), value);
                    }
                    (false, Ok(value)) => prop_assert!(false, "{spoilt} is invalid, and was read as {value:?}"),
                    // Only in strings a schema lets more pass.
                    (true, Err(error)) => prop_assert!(at_string(&error, &spoilt), "{spoilt}: {error}"),
                    (false, Err(error)) => prop_assert!(error.contains(": "), "{error}"),
                }
            }
        }
    }

    #[test]
    fn a_value_of_another_type_is_never_written(one in wit(), other in wit(), seed in any::<u64>()) {
        let engine = Engine::default();
        let shape = |wit: &Wit| {
            let bytes = component(wit);
            let component = Component::new(&engine, &bytes).unwrap();
            let item = component.get_export(None, "f").unwrap().0;
            let ComponentItem::ComponentFunc(f) = item else { panic!("no function") };
            let ty = f.params().next().unwrap().1;
            (Reader::new(&Docs::read(&component, &bytes)).read(&ty).unwrap(), ty)
        };
        let ((shape, _), (_, ty)) = (shape(&one), shape(&other));
        // It is an error, or by chance a value of both types: never a panic.
        let value = Dice(seed).value(&ty);
        let mut text = Text::new(usize::MAX);
        if text.value(&shape, &value).is_ok() {
            let json: Value = serde_json::from_str(&text.done()).unwrap();
            prop_assert!(validator(schema::schema(&shape, For::Results)).is_valid(&json), "{json}");
        }
    }
}
