"""Causes found in a profile, each with the functions that show it."""

from jissoku.explain.cpu_share import CpuCause, Signature
from jissoku.model.explanation import SuggestedDirective

# Only what runs at a start: the first function of a program is on the stack of all that it does.
START = CpuCause(
    name="start-per-request",
    cause="A process, a program or an interpreter is started for each request.",
    falsified_by="a process that is kept for many requests, and the same CPU time per request",
    remedy="keep processes from request to request: FastCGI, WSGI, PSGI or a pool of workers in"
    " place of CGI; let workers serve more requests before they are replaced",
    signature=Signature(
        functions=r"(__x64_|__arm64_)?sys_execve(at)?|do_execveat_common|bprm_execve|load_elf_binary"
        r"|begin_new_exec|dup_mm(ap)?|_dl_start\w*|_dl_sysdep_start|dl_main|Py_Initialize\w*"
        r"|Py_New_?Interpreter\w*|init_interp_\w+|Py_Finalize\w*|perl_(construct|parse)"
        r"|php_module_startup|ruby_(init|setup|options)|node::InitializeOncePerProcess\w*"
        r"|JNI_CreateJavaVM|Threads::create_vm",
    ),
    processes_min=0.1,
    of_processes=Signature(
        functions=r"(__x64_|__arm64_)?sys_(clone3?|v?fork|exit_group|wait4|waitid)|kernel_clone"
        r"|do_group_exit|do_exit|exit_mmap|do_wp_page|wp_page_copy",
    ),
)

COMPRESSION = CpuCause(
    name="compression-per-request",
    cause="The answer is compressed anew for each request.",
    falsified_by="compression off or at level 1, and the same CPU time per request",
    remedy="compress files once, beforehand (gzip_static and .gz files), or use a low level: level"
    " 9 takes several times the time of level 1 for a few per cent of the size; do not compress"
    " answers that fit into one segment",
    directives=(
        SuggestedDirective(program="nginx", directive="gzip_comp_level", value="1"),
        SuggestedDirective(program="nginx", directive="gzip_min_length", value="1000"),
        SuggestedDirective(program="nginx", directive="gzip_static", value="on"),
    ),
    signature=Signature(
        functions=r"deflate\w*|longest_match\w*|BrotliEncoder\w*|ZSTD_compress\w*"
        r"|compress/(flate|gzip)\.\S*[wW]rite\S*|compress/flate\.\(\*compressor\)\S*"
        r"|(flate2|miniz_oxide|zlib_rs|brotli|zstd)::\S*(deflate|compress|encode)\S*"
        r"|zlib_compress\w*|zlib_Compress\w*",
        libraries=r"lib(z|z-ng|brotlienc|zstd|deflate)\.so[\d.]*",
        not_functions=r"\w*[iI]nflate\w*|adler32\w*|\S*[dD]ecompress\S*",
    ),
)

TLS_HANDSHAKES = CpuCause(
    name="tls-handshakes",
    cause="CPU time goes into TLS handshakes: connections are new, and sessions are not resumed.",
    falsified_by="connections that are kept or sessions that are resumed, and the same CPU time",
    remedy="keep connections open, resume sessions (tickets, or a cache of all workers), and use an"
    " ECDSA certificate, whose signature is cheaper than RSA's",
    directives=(
        SuggestedDirective(program="nginx", directive="ssl_session_cache", value="shared:SSL:10m"),
        SuggestedDirective(program="nginx", directive="ssl_session_tickets", value="on"),
        SuggestedDirective(program="nginx", directive="ssl_session_timeout", value="1h"),
    ),
    signature=Signature(
        functions=r"SSL_do_handshake|SSL_accept|ossl_statem_\w+|state_machine|tls_process_client_hello"
        r"|rustls::server::(hs|tls12|tls13)::\S+|rustls::\S*handshake\S*"
        r"|crypto/tls\.\S*[hH]andshake\S*|RSA_private_\w+|rsa_ossl_\w+|ecdsa_\w+|ossl_ecdsa_\w+"
        # SSL_do_handshake ends with a jump, so it is on no stack; its callers are.
        r"|ngx_ssl_handshake|ssl_io_filter_handshake|ssl_sock_handshake\w*|_ssl__SSLSocket_do_handshake\w*",
    ),
)

# What OpenSSL does beside encrypting, as far as it has symbols: sockets and digests.
NOT_ENCRYPTION = Signature(
    functions=r"BIO_\w+|(EVP_Digest|SHA1|SHA224|SHA256|SHA384|SHA512|MD5)_?\w*|EVP_Q_digest|HMAC\w*"
)

TLS_ENCRYPTION = CpuCause(
    name="tls-encryption",
    cause="Much of the CPU time goes into encrypting and decrypting TLS records.",
    falsified_by="the same answers without TLS, and the same CPU time per request",
    remedy="send fewer bytes (compress texts once, beforehand), use AES-GCM where the processor has"
    " instructions for it and ChaCha20 where not, fill the records of large answers (16 KiB), and"
    " let the kernel encrypt what sendfile sends (Options KTLS of OpenSSL 3)",
    directives=(SuggestedDirective(program="nginx", directive="ssl_buffer_size", value="16k"),),
    signature=Signature(
        functions=r"_?aesni_\w+|aes_gcm_\w+|gcm_(ghash|update|init|cipher|enc|dec)\w*|gcmaes_\w+"
        r"|vaes_\w+|(CRYPTO_(gcm128|ctr128|cbc128|ccm128)|AES|EVP_(Encrypt|Decrypt|Cipher))_?\w+"
        r"|_?(chacha20|ChaCha20|poly1305|Poly1305)_?\w*|crypto_aead_(en|de)crypt|rijndael\w*"
        r"|(ring|aws_lc_rs)::aead::\S+|(ring_core|aws_lc)_\S*(aes|gcm|chacha|poly1305)\S*"
        r"|(aes_gcm|chacha20|chacha20poly1305|poly1305|ghash|aes)::\S+|\S*chacha20poly1305\.\S+"
        r"|crypto/(internal/fips140/)?aes(/gcm)?\.\S+|crypto/cipher\.\S+",
        # Distributions strip it: a cipher that OpenSSL's library chooses has no name.
        unnamed=r"libcrypto\.so[\d.]*",
        not_functions=r"AES_set_\w+",
        share_min=0.15,
    ),
    excluding=(TLS_HANDSHAKES.signature, NOT_ENCRYPTION),
)

REGULAR_EXPRESSIONS = CpuCause(
    name="regular-expressions",
    cause="Regular expressions are matched for each request.",
    falsified_by="a plain comparison in place of the pattern, and the same CPU time per request",
    remedy="compare prefixes or whole strings where that is enough, put the most frequent route"
    " first, and avoid nested repetition; in nginx pcre_jit and exact locations help",
    signature=Signature(
        functions=r"pcre2?_\w*(exec|match)\w*|regexec|re_search_internal|onig_\w+|re2::\S+"
        r"|regexp\.\S+|(regex|regex_automata|fancy_regex)::\S+|sre_ucs[124]_\w+|_sre_\w+"
        r"|(v8::internal::)?(RegExp|NativeRegExpMacroAssembler|IrregexpInterpreter)\w*\S*",
        libraries=r"lib(pcre2?-8|pcre|re2|onig)\.so[\d.]*",
    ),
)

JSON = CpuCause(
    name="json-per-request",
    cause="JSON is written or read for each request.",
    falsified_by="the same bytes kept from the first request, and the same CPU time per request",
    remedy="keep what does not change as bytes, use a faster library, or send fewer fields",
    signature=Signature(
        functions=r"encoder_(call|listencode_\w+)|scan_once_\w+|scanner_call|encoding/json\.\S+"
        r"|(serde_json|simd_json|sonic_rs)::\S+|cJSON_\w+|yajl_\w+|json_(dumps|loads|dump|load)\w*"
        r"|(v8::internal::)?Json(Stringifier|Parser|Stringify|Parse)\w*\S*|nlohmann::\S*json\S*"
        r"|Builtins_Json\w*|orjson\S*",
        files=r"encoder\.py|decoder\.py",
    ),
)

TEMPLATES = CpuCause(
    name="template-per-request",
    cause="A template is filled, or even parsed, for each request.",
    falsified_by="the page kept as bytes, and the same CPU time per request",
    remedy="parse templates once, and keep pages or parts that are the same for all",
    signature=Signature(
        functions=r"(html|text)/template\.\S+|(tera|askama|minijinja|handlebars)::\S+|render_template\w*"
        r"|root_render_func|block_\w+_render",
        files=r"(ejs|pug|handlebars|mustache|nunjucks)\S*\.js|<template>",
    ),
)

NAME_LOOKUP = CpuCause(
    name="name-lookup",
    cause="Names of hosts or users are looked up for each request.",
    falsified_by="addresses in place of names, and the same CPU time per request",
    remedy="resolve names once, at start, and log addresses instead of names",
    signature=Signature(
        functions=r"getaddrinfo\w*|gethostby\w+|getnameinfo|getpw\w+|getgr\w+|_nss_\w+|__nss_\w+"
        r"|res_n?(query|search|send)\w*|__res_\w+|net\.\(\*Resolver\)\S+",
        libraries=r"lib(nss_\w+|resolv)\.so[\d.]*",
        share_min=0.05,
    ),
)

HASHING = CpuCause(
    name="hashing",
    cause="Checksums or digests are computed for each request.",
    falsified_by="a digest kept from the first request, and the same CPU time per request",
    remedy="store digests (such as an ETag) with the file, or derive them from size and time",
    signature=Signature(
        functions=r"(MD5|SHA1|SHA256|SHA512|md5|sha1|sha256|sha512)_\w+|EVP_Digest\w*|_?crc32\w*"
        r"|(sha2|sha1|md5|blake2|blake3|ring::digest)::\S+|crypto/(md5|sha1|sha256|sha512)\.\S+"
        r"|hash/crc32\.\S+|_blake2\w*|Hacl_\w+|(sha|md5)\w*_block\w*",
    ),
    excluding=(COMPRESSION.signature, TLS_HANDSHAKES.signature),
)

LOGGING = CpuCause(
    name="logging-format",
    cause="A log line is formatted for each request.",
    falsified_by="logging switched off, and the same CPU time per request",
    remedy="log less per request, check the level before formatting the line, or write lines"
    " from a queue",
    directives=(SuggestedDirective(program="nginx", directive="access_log", value="off"),),
    signature=Signature(
        functions=r"ngx_http_log_\w+|callHandlers|makeRecord|findCaller|log\.\(\*Logger\)\S+"
        r"|log/slog\.\S+|(tracing_subscriber::fmt|env_logger|fern|slog)::\S+|v?syslog|__vsyslog\w*"
        r"|spdlog::\S+|log_message|log_request",
        share_min=0.08,
    ),
)

DATE_FORMATTING = CpuCause(
    name="date-formatting",
    cause="Dates are formatted, or time zones looked up, for each request.",
    falsified_by="a date that is formatted once a second, and the same CPU time per request",
    remedy="format the date once a second and reuse it; set TZ, so that no file is examined",
    signature=Signature(
        functions=r"_*strftime\w*|_*(localtime|gmtime)(64)?(_r)?|__tz_convert|__tzfile_\w+|tzset\w*"
        r"|_*mktime\w*|time\.Time\.(Format|AppendFormat|appendFormat\w*)|time\.\(\*Location\)\S+"
        r"|formatdate|format_datetime|(chrono|time|httpdate)::\S*format\S*|(v8::internal::)?DateCache\S*",
        share_min=0.05,
    ),
    excluding=(LOGGING.signature,),
)

EXCEPTIONS = CpuCause(
    name="exceptions",
    cause="Exceptions are thrown, or stacks walked for them, for each request.",
    falsified_by="the same answer without an exception, and the same CPU time per request",
    remedy="return a value where something is expected to happen, and keep exceptions for what is"
    " not; do not format stack traces that are never read",
    signature=Signature(
        functions=r"_Unwind_\w+|__cxa_(throw|rethrow|allocate_exception)|__gxx_personality_v0"
        r"|(std|core)::panicking::\S+|runtime\.(gopanic|recovery|Callers)"
        r"|(v8::internal::)?(Isolate::(Throw|CaptureSimpleStackTrace)\S*|ErrorUtils::Construct\S*)"
        r"|format_exc|format_exception|print_exc|walk_stack|_extract_from_extended_frame_gen"
        r"|java\.lang\.Throwable\.fillInStackTrace|fillInStackTrace",
        # Each thread of a Rust program begins with it.
        not_functions=r"std::panicking::(try|catch_unwind)\S*",
        share_min=0.05,
    ),
)

GARBAGE_COLLECTION = CpuCause(
    name="garbage-collection",
    cause="Much of the CPU time goes into collecting garbage.",
    falsified_by="a larger heap (GOGC, --max-semi-space-size, -Xmx, gc.freeze), and the same time",
    remedy="allocate less per request, or let the heap grow larger between collections: GOGC or"
    " GOMEMLIMIT of Go, --max-semi-space-size of Node, -Xmx of the JVM, gc.freeze() and a higher"
    " threshold of Python",
    signature=Signature(
        functions=r"runtime\.(gcBgMarkWorker\S*|gcAssistAlloc\S*|gcDrain\S*|scanobject|bgsweep|sweepone)"
        r"|gc_collect_\w+|_?PyGC_Collect\w*|gc_alloc_generations|collect_generations"
        r"|v8::internal::(Heap::(CollectGarbage|Scavenge)|Scavenger\w*|MarkCompact\w*|Sweeper)\S*"
        r"|(G1|Parallel|ZMark|ZRelocate|Shenandoah)\w*(Task|Worker|GC)\w*\S*|GCTaskThread\S*",
        share_min=0.15,
    ),
)

# Native allocators only; the collectors of runtimes are another cause.
ALLOCATION = CpuCause(
    name="allocation",
    cause="Much of the CPU time goes into allocating and freeing memory.",
    falsified_by="buffers that are kept from request to request, and the same CPU time",
    remedy="keep buffers and objects from request to request, or try another allocator"
    " (LD_PRELOAD of jemalloc or mimalloc shows within a minute what it would save)",
    signature=Signature(
        functions=r"(__libc_|_int_|__GI___libc_)?(malloc|free|calloc|realloc|memalign)"
        r"|malloc_consolidate|sysmalloc|systrim\w*|unlink_chunk\w*|(je|mi|tc)_\w*(alloc|free)\w*"
        r"|operator (new|delete)(\[\])?(\(.*)?",
        libraries=r"lib(jemalloc|mimalloc|tcmalloc\w*)\.so[\d.]*",
        share_min=0.2,
    ),
    excluding=(COMPRESSION.signature, JSON.signature, LOGGING.signature),
)

# Schedulers of runtimes wake their threads with futexes, which are not locks of the program.
SCHEDULER = Signature(
    functions=r"runtime\.(findRunnable|schedule|wakep|startm|stopm|notewakeup|mcall)\S*"
)

# Threads of one interpreter run in turns. How many there are is decided by the server, such as one
# for each connection, or one for its network and one for the application: nothing that its user
# can change, so it is no cause. In Granian it is 14 % of the CPU time, with one worker.
INTERPRETER_LOCK = Signature(functions=r"take_gil|drop_gil")

LOCK_CONTENTION = CpuCause(
    name="lock-contention",
    cause="CPU time goes into waiting for locks, and into waking waiting threads.",
    falsified_by="one thread or one process per core, and the same CPU time per request",
    remedy="share less between threads, hold locks for shorter, or start a process per core",
    signature=Signature(
        functions=r"_*(lll_lock_wait|pthread_mutex_lock|pthread_rwlock_\w+lock)\w*"
        r"|(parking_lot\w*::|std::sys::sync::(mutex|rwlock))\S*|sync\.\(\*(RW)?Mutex\)\S*lockSlow\S*"
        r"|ObjectMonitor::\S*|__x64_sys_futex|__arm64_sys_futex",
        not_functions=r"runtime\.\S+",
        share_min=0.15,
    ),
    excluding=(SCHEDULER, INTERPRETER_LOCK),
)

# In user space only: every server has copies in the kernel.
COPYING = CpuCause(
    name="copying",
    cause="Much of the CPU time goes into copying memory in user space.",
    falsified_by="an answer of a hundredth of the size at the same CPU time per request",
    remedy="send from where the bytes are (writev, sendfile, slices), and make buffers large enough"
    " once instead of growing them",
    signature=Signature(
        functions=r"_*(mem(cpy|move|set)|bcopy)(_\w+)?|__mem(cpy|move)_\w+|runtime\.memmove",
        share_min=0.15,
    ),
    excluding=(
        COMPRESSION.signature,
        JSON.signature,
        REGULAR_EXPRESSIONS.signature,
        TLS_HANDSHAKES.signature,
    ),
)

# The causes that usually cost most come first.
CPU_CAUSES = (
    START,
    COMPRESSION,
    TLS_HANDSHAKES,
    TLS_ENCRYPTION,
    REGULAR_EXPRESSIONS,
    JSON,
    TEMPLATES,
    NAME_LOOKUP,
    HASHING,
    LOGGING,
    DATE_FORMATTING,
    EXCEPTIONS,
    GARBAGE_COLLECTION,
    ALLOCATION,
    LOCK_CONTENTION,
    COPYING,
)
