//! Avro schemas: their JSON read into a tree without references.
//!
//! Every rule of the specification that decides what bytes mean is checked here, once: names and namespaces, duplicate branches of
//! unions, sizes, precisions. Named types stand where they are referred to; a type that contains itself is refused, as in Spark.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};

/// How deep types may nest.
const MAX_DEPTH: usize = 64;
/// How many types a schema may have when every reference is written out.
const MAX_TYPES: usize = 20_000;

/// What a `long` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
}

/// What a `long` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Long {
    /// A number.
    Plain,
    /// Time since 1970, UTC.
    Timestamp(Unit),
    /// Local time since 1970.
    Local(Unit),
}

/// The name of a named type, with the names it went by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Name with namespace.
    pub full: String,
    /// Other full names.
    pub aliases: Vec<String>,
}

impl Name {
    /// The name without its namespace.
    pub fn short(&self) -> &str {
        short(&self.full)
    }

    /// Whether data of a type of this (the reader's) name may have been written as `writer`: same name, or an alias. Namespaces
    /// do not matter, as in the Java library.
    pub fn takes(&self, writer: &Name) -> bool {
        self.short() == writer.short() || self.aliases.contains(&writer.full)
    }
}

fn short(full: &str) -> &str {
    full.rsplit('.').next().unwrap_or(full)
}

/// One field of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Other names it went by.
    pub aliases: Vec<String>,
    /// Its type.
    pub shape: Arc<Shape>,
    /// What readers take if a writer had no such field.
    pub default: Option<Value>,
}

/// The symbols of an enum.
#[derive(Debug, Clone, PartialEq)]
pub struct Symbols {
    /// The enum's name.
    pub name: Name,
    /// In the order that numbers them.
    pub symbols: Vec<String>,
    /// What readers take for symbols they do not know.
    pub default: Option<String>,
}

/// An Avro type.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// `null`.
    Null,
    /// `boolean`.
    Boolean,
    /// `int`.
    Int,
    /// `int` counting days since 1970.
    Date,
    /// `long`.
    Long(Long),
    /// `float`.
    Float,
    /// `double`.
    Double,
    /// `bytes`.
    Bytes,
    /// `string`.
    Text,
    /// `fixed` of so many bytes.
    Fixed(Name, usize),
    /// `bytes` or `fixed` holding a decimal of so many digits, of which so many after the point.
    Decimal(u8, i8, Option<(Name, usize)>),
    /// `enum`.
    Enum(Symbols),
    /// `array`.
    Array(Arc<Shape>),
    /// `map` from texts.
    Map(Arc<Shape>),
    /// `record`.
    Record(Name, Vec<Field>),
    /// A union.
    Union(Vec<Arc<Shape>>),
}

impl Shape {
    /// Reads a schema.
    ///
    /// # Errors
    /// What is wrong with the text, and at which type.
    pub fn parse(text: &str) -> Result<Arc<Shape>, String> {
        Self::parse_with(&[], text)
    }

    /// As [`Shape::parse`], for a schema that refers to types of `others`, each of which may refer to those before it.
    ///
    /// # Errors
    /// What is wrong with one of the texts, and at which type.
    pub fn parse_with(others: &[String], text: &str) -> Result<Arc<Shape>, String> {
        let mut parser = Parser::default();
        for other in others {
            parser
                .text(other)
                .map_err(|e| format!("a schema that it refers to: {e}"))?;
        }
        parser.text(text)
    }

    fn json(text: &str) -> Result<Value, String> {
        let trimmed = text.trim();
        // A bare name such as `string` is no JSON, but everybody's tools accept it.
        let bare = !trimmed.is_empty() && trimmed.bytes().all(|b| b.is_ascii_alphanumeric());
        match bare {
            true => Ok(Value::String(trimmed.to_owned())),
            false => serde_json::from_str(trimmed).map_err(|e| format!("no JSON: {e}")),
        }
    }

    /// The kind of type in words that Avro's schemas use.
    pub fn word(&self) -> &'static str {
        match self {
            Shape::Null => "null",
            Shape::Boolean => "boolean",
            Shape::Int | Shape::Date => "int",
            Shape::Long(_) => "long",
            Shape::Float => "float",
            Shape::Double => "double",
            Shape::Bytes | Shape::Decimal(_, _, None) => "bytes",
            Shape::Text => "string",
            Shape::Fixed(_, _) | Shape::Decimal(_, _, Some(_)) => "fixed",
            Shape::Enum(_) => "enum",
            Shape::Array(_) => "array",
            Shape::Map(_) => "map",
            Shape::Record(_, _) => "record",
            Shape::Union(_) => "union",
        }
    }

    /// The name, if the type has one.
    pub fn name(&self) -> Option<&Name> {
        match self {
            Shape::Fixed(name, _)
            | Shape::Decimal(_, _, Some((name, _)))
            | Shape::Record(name, _) => Some(name),
            Shape::Enum(e) => Some(&e.name),
            _ => None,
        }
    }

    /// The type in words for messages.
    pub fn shown(&self) -> String {
        match self.name() {
            Some(name) => format!("{} {}", self.word(), name.full),
            None => self.word().to_owned(),
        }
    }
}

#[derive(Default)]
struct Parser {
    /// Named types read so far; `None` while a type is being read.
    named: HashMap<String, Option<(Arc<Shape>, usize)>>,
    types: usize,
}

impl Parser {
    fn text(&mut self, text: &str) -> Result<Arc<Shape>, String> {
        self.shape(&Shape::json(text)?, "", 0)
    }

    fn shape(&mut self, json: &Value, space: &str, depth: usize) -> Result<Arc<Shape>, String> {
        if depth > MAX_DEPTH {
            return Err(format!("types nest deeper than {MAX_DEPTH}"));
        }
        self.count(1)?;
        match json {
            Value::String(word) => self.word(word, space),
            Value::Array(branches) => self.union(branches, space, depth),
            Value::Object(o) => match o.get("type") {
                Some(Value::String(word)) => self.typed(word, o, space, depth),
                Some(inner) => self.shape(inner, space, depth + 1),
                None => Err(format!("a type without \"type\": {json}")),
            },
            other => Err(format!("{other} is no type")),
        }
    }

    fn count(&mut self, more: usize) -> Result<(), String> {
        self.types = self.types.saturating_add(more);
        if self.types > MAX_TYPES {
            return Err(format!("more than {MAX_TYPES} types"));
        }
        Ok(())
    }

    fn word(&mut self, word: &str, space: &str) -> Result<Arc<Shape>, String> {
        if let Some(shape) = primitive(word) {
            return Ok(Arc::new(shape));
        }
        let full = full_name(word, space);
        let found = self.named.get(&full).or_else(|| self.named.get(word));
        match found.cloned() {
            Some(Some((shape, types))) => {
                self.count(types)?;
                Ok(shape)
            }
            Some(None) => Err(format!(
                "type {full} contains itself; recursive types have no column type"
            )),
            None => Err(format!("unknown type \"{word}\"")),
        }
    }

    fn union(
        &mut self,
        branches: &[Value],
        space: &str,
        depth: usize,
    ) -> Result<Arc<Shape>, String> {
        if branches.is_empty() {
            return Err("a union without branches".into());
        }
        let mut seen = HashSet::new();
        let mut shapes = Vec::with_capacity(branches.len());
        for branch in branches {
            let shape = self.shape(branch, space, depth + 1)?;
            if matches!(*shape, Shape::Union(_)) {
                return Err("a union directly inside a union".into());
            }
            let key = shape.name().map_or(shape.word(), |n| n.full.as_str());
            if !seen.insert(key.to_owned()) {
                return Err(format!("a union with two branches {key}"));
            }
            shapes.push(shape);
        }
        Ok(Arc::new(Shape::Union(shapes)))
    }

    fn typed(
        &mut self,
        word: &str,
        o: &Map<String, Value>,
        space: &str,
        depth: usize,
    ) -> Result<Arc<Shape>, String> {
        match word {
            "array" => {
                let items = o.get("items").ok_or("an array without \"items\"")?;
                Ok(Arc::new(Shape::Array(self.shape(
                    items,
                    space,
                    depth + 1,
                )?)))
            }
            "map" => {
                let values = o.get("values").ok_or("a map without \"values\"")?;
                Ok(Arc::new(Shape::Map(self.shape(
                    values,
                    space,
                    depth + 1,
                )?)))
            }
            "record" | "error" | "enum" | "fixed" => self.define(word, o, space, depth),
            _ => match primitive(word) {
                Some(shape) => logical(shape, o).map(Arc::new),
                None => self.word(word, space),
            },
        }
    }

    fn define(
        &mut self,
        word: &str,
        o: &Map<String, Value>,
        space: &str,
        depth: usize,
    ) -> Result<Arc<Shape>, String> {
        let name = name_of(word, o, space)?;
        let inner_space = name
            .full
            .rsplit_once('.')
            .map_or("", |(space, _)| space)
            .to_owned();
        if self.named.insert(name.full.clone(), None).is_some() {
            return Err(format!("type {} is defined twice", name.full));
        }
        let before = self.types;
        let full = name.full.clone();
        let shape = match word {
            "enum" => symbols(name, o)?,
            "fixed" => {
                let size = o.get("size").and_then(Value::as_u64);
                let size = size.filter(|s| (1..=1 << 24).contains(s)).ok_or_else(|| {
                    format!("fixed {full} needs a \"size\" of 1 to {} bytes", 1 << 24)
                })?;
                logical(Shape::Fixed(name, size as usize), o)?
            }
            _ => Shape::Record(name, self.fields(&full, o, &inner_space, depth)?),
        };
        let shape = Arc::new(shape);
        let entry = Some((Arc::clone(&shape), self.types - before));
        self.named.insert(full, entry);
        Ok(shape)
    }

    fn fields(
        &mut self,
        record: &str,
        o: &Map<String, Value>,
        space: &str,
        depth: usize,
    ) -> Result<Vec<Field>, String> {
        let list = o.get("fields").and_then(Value::as_array);
        let list = list.ok_or_else(|| format!("record {record} needs \"fields\""))?;
        let mut seen = HashSet::new();
        list.iter()
            .map(|field| {
                let name = field.get("name").and_then(Value::as_str);
                let name = name.ok_or_else(|| format!("a field of {record} has no name"))?;
                if !seen.insert(name.to_owned()) {
                    return Err(format!("record {record} has two fields {name}"));
                }
                let within = |e| format!("field {record}.{name}: {e}");
                let json = field.get("type").ok_or_else(|| within("no type".into()))?;
                Ok(Field {
                    name: name.to_owned(),
                    aliases: texts(field.get("aliases")),
                    shape: self.shape(json, space, depth + 1).map_err(within)?,
                    default: field.get("default").cloned(),
                })
            })
            .collect()
    }
}

fn primitive(word: &str) -> Option<Shape> {
    Some(match word {
        "null" => Shape::Null,
        "boolean" => Shape::Boolean,
        "int" => Shape::Int,
        "long" => Shape::Long(Long::Plain),
        "float" => Shape::Float,
        "double" => Shape::Double,
        "bytes" => Shape::Bytes,
        "string" => Shape::Text,
        _ => return None,
    })
}

fn full_name(name: &str, space: &str) -> String {
    if name.contains('.') || space.is_empty() {
        name.to_owned()
    } else {
        format!("{space}.{name}")
    }
}

fn texts(json: Option<&Value>) -> Vec<String> {
    let list = json.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn name_of(word: &str, o: &Map<String, Value>, space: &str) -> Result<Name, String> {
    let name = o.get("name").and_then(Value::as_str);
    let name = name
        .filter(|n| !n.is_empty())
        .ok_or_else(|| format!("a {word} without name"))?;
    let space = o.get("namespace").and_then(Value::as_str).unwrap_or(space);
    let full = full_name(name, space);
    let space = full.rsplit_once('.').map_or("", |(space, _)| space);
    let aliases = texts(o.get("aliases"));
    let aliases = aliases
        .iter()
        .map(|alias| full_name(alias, space))
        .collect();
    Ok(Name { full, aliases })
}

fn symbols(name: Name, o: &Map<String, Value>) -> Result<Shape, String> {
    let symbols = texts(o.get("symbols"));
    let default = o.get("default").and_then(Value::as_str).map(str::to_owned);
    let distinct: HashSet<&String> = symbols.iter().collect();
    if symbols.is_empty() || distinct.len() < symbols.len() {
        return Err(format!("enum {} needs distinct \"symbols\"", name.full));
    }
    if default.as_ref().is_some_and(|d| !symbols.contains(d)) {
        return Err(format!(
            "the default of enum {} is none of its symbols",
            name.full
        ));
    }
    Ok(Shape::Enum(Symbols {
        name,
        symbols,
        default,
    }))
}

/// The type with its logical type; one that is unknown or does not fit leaves the type as it is, as the specification wants it.
fn logical(shape: Shape, o: &Map<String, Value>) -> Result<Shape, String> {
    let word = o.get("logicalType").and_then(Value::as_str).unwrap_or("");
    Ok(match (word, shape) {
        ("date", Shape::Int) => Shape::Date,
        ("timestamp-millis", Shape::Long(_)) => Shape::Long(Long::Timestamp(Unit::Millis)),
        ("timestamp-micros", Shape::Long(_)) => Shape::Long(Long::Timestamp(Unit::Micros)),
        ("local-timestamp-millis", Shape::Long(_)) => Shape::Long(Long::Local(Unit::Millis)),
        ("local-timestamp-micros", Shape::Long(_)) => Shape::Long(Long::Local(Unit::Micros)),
        ("decimal", Shape::Bytes) => decimal(o, None)?,
        ("decimal", Shape::Fixed(name, size)) => decimal(o, Some((name, size)))?,
        (_, shape) => shape,
    })
}

fn decimal(o: &Map<String, Value>, fixed: Option<(Name, usize)>) -> Result<Shape, String> {
    let number = |key: &str| o.get(key).and_then(Value::as_u64);
    let (precision, scale) = (number("precision"), number("scale").unwrap_or(0));
    match precision {
        Some(p) if (1..=38).contains(&p) && scale <= p => {
            Ok(Shape::Decimal(p as u8, scale as i8, fixed))
        }
        _ => Err(format!(
            "a decimal needs a \"precision\" of 1 to 38 and a \"scale\" up to it, it has {} and {scale}",
            precision.map_or("none".to_owned(), |p| p.to_string())
        )),
    }
}
