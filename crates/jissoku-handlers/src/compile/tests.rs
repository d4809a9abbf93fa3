//! Compilation with the compiler of this machine, and what is kept of it.

use super::*;
use crate::{HandlerError, HandlerService};

const HELLO: &str = "#include <jissoku.h>\n#include \"greeting.h\"\n\
    int jsk_handle(const jsk_api *js, jsk_request *r) { return js->printf(r, 200, GREETING); }\n";

/// A folder of its own, which is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("jissoku-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    /// A file that was written some time ago.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a file");
        let file = fs::File::options().write(true).open(&path).expect("it is there");
        let past = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        file.set_modified(past).expect("it is ours");
        path
    }

    fn cache(&self) -> Cache {
        Cache::open(&[self.0.join("cache")]).expect("it is made")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

fn compiler(flags: &str) -> Compiler {
    Compiler::new(Language::C, None, flags, "")
}

/// The path of the shared object of a source without errors, nor warnings that are errors.
fn compiled(compiler: &Compiler, source: &Path, cache: &Cache) -> PathBuf {
    compiler.compile(source, cache).expect("it compiles").path
}

fn loaded(library: &Path) -> Result<HandlerService, HandlerError> {
    let file = fs::File::open(library).expect("it is there");
    let library = Library { path: library.to_owned(), file };
    HandlerService::load(&[(library, "it".to_owned())], <_>::default(), |_| {})
}

#[test]
fn a_source_is_compiled_again_if_anything_has_changed() {
    let folder = Folder::new("compile");
    let source = folder.write("hello.c", HELLO);
    folder.write("greeting.h", "#define GREETING \"Hello\"\n");
    let cache = folder.cache();
    let compile = |flags| compiled(&compiler(flags), &source, &cache);
    let first = compile("");
    assert!(loaded(&first).is_ok());
    let stamp = |path: &Path| fs::metadata(path).expect("it is kept").modified().expect("a time");
    let compiled = stamp(&first);
    assert_eq!((compile(""), stamp(&first)), (first.clone(), compiled));
    assert_ne!(compile("-g"), first);
    folder.write("greeting.h", "#define GREETING \"Good evening\"\n");
    let second = compile("");
    assert_ne!(second, first);
    folder.write("hello.c", &HELLO.replace("200", "201"));
    assert_ne!(compile(""), second);
    folder.write("hello.c", HELLO);
    assert_eq!(compile(""), second);
    fs::remove_file(&second).expect("it is there");
    assert_eq!(compile(""), second);
}

#[test]
fn what_cannot_be_compiled_is_a_sentence() {
    let folder = Folder::new("refused");
    let (cache, source) = (folder.cache(), folder.write("wrong.c", "int x = ;\n"));
    let refusal = |compiler: &Compiler, source: &Path| {
        compiler.compile(source, &cache).expect_err("there is no shared object").to_string()
    };
    let said = refusal(&compiler("-w"), &source);
    assert!(
        said.ends_with("wrong.c does not compile: cc has printed why (exit status: 1)"),
        "{said}"
    );
    let said = refusal(&compiler(""), &folder.0.join("nothing.c"));
    assert!(said.starts_with("cannot read ") && said.contains("nothing.c: No such file"), "{said}");
    let none = Compiler::new(Language::Cpp, Some("no-such-cc -x".as_ref()), "", "");
    let said = refusal(&none, &source);
    assert!(said.starts_with("cannot run the compiler no-such-cc: No such file"), "{said}");
    assert!(said.ends_with("; install it, or name another in CXX"), "{said}");
    let left: Vec<_> = fs::read_dir(folder.0.join("cache")).expect("a folder").flatten().collect();
    assert!(left.iter().all(|file| file.file_type().is_ok_and(|kind| kind.is_dir())), "{left:?}");
}

#[test]
fn a_shared_object_that_is_no_handler_is_a_sentence() {
    let folder = Folder::new("no-handler");
    let cache = folder.cache();
    for (name, text, expected) in [
        ("a.c", "int x;\n", "it is not a handler: it does not include jissoku.h"),
        ("b.c", "#include <jissoku.h>\n", "it does not define the function jsk_handle"),
        (
            "c.c",
            "unsigned jsk_abi = 2;\n",
            "it is for version 2 of jissoku.h, and this server has version 1: compile it with the \
             header of this server",
        ),
    ] {
        let source = folder.write(name, text);
        let library = compiled(&compiler(""), &source, &cache);
        let refused = loaded(&library).expect_err("it is no handler");
        assert_eq!(refused.to_string(), expected);
    }
    let text = folder.write("text.so", "no library\n");
    let refused = loaded(&text).expect_err("it is no library").to_string();
    assert!(refused.starts_with("cannot load it: "), "{refused}");
}

#[test]
fn the_header_is_one_of_strict_c99_and_of_cpp() {
    let folder = Folder::new("languages");
    folder.write("greeting.h", "#define GREETING \"Hello\"\n");
    let cache = folder.cache();
    let strict = "-Wextra -Wpedantic -Wstrict-prototypes -Werror";
    let source = folder.write("strict.c", HELLO);
    let strict_c = compiler(&format!("-std=c99 {strict}"));
    let library = compiled(&strict_c, &source, &cache);
    assert!(loaded(&library).is_ok());
    let has_cpp = Command::new("c++").arg("--version").output().is_ok();
    if has_cpp {
        let source = folder.write("hello.cpp", HELLO);
        let cpp = Compiler::new(Language::Cpp, None, "-Wextra -Wpedantic -Werror", "");
        let library = compiled(&cpp, &source, &cache);
        assert!(loaded(&library).is_ok());
    }
}
