//! The records of an array inside of a document: `{…, "Records": [{…}, {…}], …}`, as Spark's option `explodeEmbeddedArray` reads it.
//!
//! One record is held at a time. Only as much of JSON is understood as tells where records begin and end; whether a record is sound is
//! seen when it is decoded.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use super::super::{DecodeError, lines::Line};

const CHUNK_BYTES: usize = 1 << 16;
const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// What comes next.
pub(super) enum Found<'a> {
    /// A record.
    Record(Line<'a>),
    /// The document is none that has an array: the line, and what is wrong.
    Broken(u64, &'static str),
}

/// Where in the document reading is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Before,
    Inside,
    After,
}

/// Takes the records out of one document.
pub(super) struct EmbeddedArray {
    input: BufReader<Box<dyn Read + Send>>,
    file: Arc<str>,
    field: Box<[u8]>,
    max_record_bytes: usize,
    place: Place,
    /// Ends of lines passed.
    lines: u64,
    record: Vec<u8>,
}

impl EmbeddedArray {
    /// `field` is the name at the top, `file` the name used in errors.
    pub(super) fn new(
        input: Box<dyn Read + Send>,
        file: &str,
        field: &str,
        max_record_bytes: usize,
    ) -> Self {
        Self {
            input: BufReader::with_capacity(CHUNK_BYTES, input),
            file: file.into(),
            field: field.as_bytes().into(),
            max_record_bytes,
            place: Place::Before,
            lines: 0,
            record: Vec::new(),
        }
    }

    pub(super) fn file(&self) -> &Arc<str> {
        &self.file
    }

    /// Bytes of the longest record; a longer one is an error.
    pub(super) fn limit(&self) -> usize {
        self.max_record_bytes
    }

    /// The next record, `None` behind the array. A document without such an array has none.
    pub(super) fn next_record(&mut self) -> Result<Option<Found<'_>>, DecodeError> {
        if self.place == Place::Before {
            self.place = Place::After;
            match self.find_array()? {
                Ok(true) => self.place = Place::Inside,
                Ok(false) => {}
                Err(reason) => return Ok(Some(Found::Broken(self.lines + 1, reason))),
            }
        }
        if self.place == Place::After {
            return Ok(None);
        }
        match self.token_behind_commas()? {
            Some(b']') => self.place = Place::After,
            Some(first) => return self.take_record(first).map(Some),
            None => {
                self.place = Place::After;
                let reason = "the document ends inside of the array";
                return Ok(Some(Found::Broken(self.lines + 1, reason)));
            }
        }
        Ok(None)
    }

    fn take_record(&mut self, first: u8) -> Result<Found<'_>, DecodeError> {
        let number = self.lines + 1;
        self.record.clear();
        let mut record = std::mem::take(&mut self.record);
        let taken = self.value(first, Some(&mut record));
        self.record = record;
        taken?;
        Ok(Found::Record(Line {
            number,
            length: self.record.len() as u64,
            bytes: &self.record,
        }))
    }

    /// Goes to the first record. False if the document has no such array, an error if it is none that could have.
    fn find_array(&mut self) -> Result<Result<bool, &'static str>, DecodeError> {
        const CUT: &str = "the document ends before the array";
        match self.first_token()? {
            None => return Ok(Ok(false)),
            Some(b'{') => {}
            Some(_) => return Ok(Err("the document is not an object")),
        }
        loop {
            match self.token_behind_commas()? {
                Some(b'"') => {}
                Some(b'}') => return Ok(Ok(false)),
                Some(_) => return Ok(Err("the document has something else than a field")),
                None => return Ok(Err(CUT)),
            }
            let mut name = Vec::new();
            self.text(Some(&mut name))?;
            name.pop();
            match self.token()? {
                Some(b':') => {}
                Some(_) => return Ok(Err("a field of the document has no value")),
                None => return Ok(Err(CUT)),
            }
            match self.token()? {
                Some(b'[') if *name == *self.field => return Ok(Ok(true)),
                Some(first) => self.value(first, None)?,
                None => return Ok(Err(CUT)),
            }
        }
    }

    /// The first byte that is neither blank nor mark of the byte order.
    fn first_token(&mut self) -> Result<Option<u8>, DecodeError> {
        let mut first = self.token()?;
        for mark in BOM {
            if first != Some(mark) {
                break;
            }
            first = self.token()?;
        }
        Ok(first)
    }

    /// Passes the value that begins with `first`, which has been read; its text goes to `out`.
    fn value(&mut self, first: u8, mut out: Option<&mut Vec<u8>>) -> Result<(), DecodeError> {
        if let Some(out) = out.as_deref_mut() {
            out.push(first);
        }
        match first {
            b'"' => return self.text(out),
            b'{' | b'[' => {}
            _ => return self.scalar(out),
        }
        let mut depth = 1_usize;
        while depth > 0 {
            let Some(byte) = self.byte()? else {
                return Ok(());
            };
            self.keep(out.as_deref_mut(), byte)?;
            match byte {
                b'"' => self.text(out.as_deref_mut())?,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// Passes a text behind its opening quote, with its closing one.
    fn text(&mut self, mut out: Option<&mut Vec<u8>>) -> Result<(), DecodeError> {
        while let Some(byte) = self.byte()? {
            self.keep(out.as_deref_mut(), byte)?;
            match byte {
                b'"' => break,
                b'\\' => {
                    if let Some(escaped) = self.byte()? {
                        self.keep(out.as_deref_mut(), escaped)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Passes a number or a word up to what ends it.
    fn scalar(&mut self, mut out: Option<&mut Vec<u8>>) -> Result<(), DecodeError> {
        while let Some(byte) = self.peek()? {
            if matches!(byte, b',' | b'}' | b']') || is_blank(byte) {
                break;
            }
            self.keep(out.as_deref_mut(), byte)?;
            self.input.consume(1);
        }
        Ok(())
    }

    fn keep(&self, out: Option<&mut Vec<u8>>, byte: u8) -> Result<(), DecodeError> {
        let Some(out) = out else {
            return Ok(());
        };
        if out.len() >= self.max_record_bytes {
            return Err(DecodeError::RecordTooLong {
                file: Arc::clone(&self.file),
                line: self.lines + 1,
                limit_bytes: self.max_record_bytes,
            });
        }
        out.push(byte);
        Ok(())
    }

    fn token_behind_commas(&mut self) -> Result<Option<u8>, DecodeError> {
        loop {
            match self.token()? {
                Some(b',') => {}
                other => return Ok(other),
            }
        }
    }

    /// The next byte that is not blank.
    fn token(&mut self) -> Result<Option<u8>, DecodeError> {
        loop {
            match self.byte()? {
                Some(byte) if is_blank(byte) => {}
                other => return Ok(other),
            }
        }
    }

    fn byte(&mut self) -> Result<Option<u8>, DecodeError> {
        let byte = self.peek()?;
        if byte.is_some() {
            self.input.consume(1);
            self.lines += u64::from(byte == Some(b'\n'));
        }
        Ok(byte)
    }

    fn peek(&mut self) -> Result<Option<u8>, DecodeError> {
        loop {
            match self.input.fill_buf() {
                Ok(bytes) => return Ok(bytes.first().copied()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(DecodeError::Read {
                        file: Arc::clone(&self.file),
                        line: self.lines,
                        source,
                    });
                }
            }
        }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::super::super::lines_tests::Dribble;
    use super::*;

    /// A line and a text about it.
    type At = (u64, String);

    /// The records with their lines, and what is wrong with the document.
    fn taken(document: &str, field: &str) -> (Vec<At>, Option<At>) {
        let input = |step| {
            Box::new(Dribble {
                bytes: document.as_bytes().to_vec(),
                at: 0,
                step,
            })
        };
        let all = |step| {
            let mut array = EmbeddedArray::new(input(step), "f", field, 1 << 20);
            let (mut records, mut broken) = (Vec::new(), None);
            while let Some(found) = array.next_record().expect("readable") {
                match found {
                    Found::Record(line) => {
                        let text = String::from_utf8(line.bytes.to_vec()).expect("UTF-8");
                        records.push((line.number, text));
                    }
                    Found::Broken(line, reason) => broken = Some((line, reason.to_owned())),
                }
            }
            (records, broken)
        };
        let whole = all(usize::MAX);
        assert_eq!(all(1), whole, "{document}");
        whole
    }

    fn records(document: &str) -> Vec<String> {
        let (records, broken) = taken(document, "Records");
        assert_eq!(broken, None, "{document}");
        records.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn embedded_records_are_those_of_the_field_at_the_top() {
        let nested = "{\"a\": {\"b\": [1, {\"c\": \"}]\\\"x[{\"}]}, \"Records\": [0]}";
        let document = format!(
            "\u{feff}{{\"before\": {{\"Records\": [{{\"no\": 1}}]}}, \"x\": [1, [2]], \"Records\": [{nested},\n 1 , true,null,\"s,]\" ], \"after\": 1}}"
        );
        assert_eq!(records(&document), [nested, "1", "true", "null", "\"s,]\""]);
        let (found, _) = taken(&document, "Records");
        assert_eq!((found[0].0, found[1].0), (1, 2), "lines");
        assert_eq!(records("{\"Records\": []}"), Vec::<String>::new());
    }

    #[test]
    fn embedded_document_without_the_array_has_no_records() {
        for document in [
            "",
            "  \n",
            "{}",
            "{\"a\": 1}",
            "{\"Records\": {\"a\": 1}}",
            "{\"records\": [1]}",
            "{\"Rec\\u006frds\": [1]}",
        ] {
            assert_eq!(records(document), Vec::<String>::new(), "{document}");
        }
    }

    #[test]
    fn embedded_document_that_is_broken_says_so_and_keeps_what_came_before() {
        for (document, count, part) in [
            ("[{\"a\": 1}]", 0, "not an object"),
            ("{\"a\": 1, 7}", 0, "something else"),
            ("{\"a\" 1}", 0, "no value"),
            ("{\"a\": [1, ", 0, "ends before"),
            ("{\"Records\": [{\"a\": 1}, ", 1, "ends inside"),
            ("{\"Records\": [{\"a\": 1}, {\"b\": ", 2, "ends inside"),
        ] {
            let (records, broken) = taken(document, "Records");
            assert_eq!(records.len(), count, "{document}");
            let (line, reason) = broken.expect(document);
            assert!(line == 1 && reason.contains(part), "{document}: {reason}");
        }
    }

    #[test]
    fn embedded_record_that_is_too_long_is_an_error() {
        let document = b"{\"Records\": [{\"a\": 1}, {\"b\": \"0123456789\"}]}".to_vec();
        let input = Dribble {
            bytes: document,
            at: 0,
            step: 7,
        };
        let mut array = EmbeddedArray::new(Box::new(input), "f", "Records", 12);
        assert!(matches!(
            array.next_record(),
            Ok(Some(Found::Record(Line { number: 1, .. })))
        ));
        assert!(matches!(
            array.next_record(),
            Err(DecodeError::RecordTooLong { .. })
        ));
    }
}
