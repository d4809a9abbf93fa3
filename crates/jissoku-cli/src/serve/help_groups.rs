//! The groups of flags in the help of `jissoku serve`.

use crate::help::Group;

pub(super) static GROUPS: [Group; 14] = [
    Group {
        heading: "What is served",
        common: "folder to static config",
        others: "fixed redirect print_config",
    },
    Group {
        heading: "Files",
        common: "",
        others: "spa clean_urls response_field listing dotfiles symlinks precompressed not_found \
                 cache_control content_type revalidate cache_size",
    },
    Group {
        heading: "Forwarding",
        common: "",
        others: "strip_prefix add_prefix request_field connect_time_max response_time_max \
                 read_time_max upstream_idle_time upstream_resolve_every upstream_tls_ca \
                 upstream_tls_name upstream_tls_insecure tunnel_idle_time gather_memory \
                 response_fields_max via_name diagnostics_for",
    },
    Group {
        heading: "Where",
        common: "listen",
        others: "socket_mode trusted_proxies forwarded_fields",
    },
    Group { heading: "Workers", common: "workers threads", others: "cores driver pin" },
    Group {
        heading: "Applications",
        common: "factory",
        others: "app_dir chdir env_file root_path lifespan log_level log_config body_memory_max \
                 wsgi asgi asgi_spec_version asgi_path_send hang_timeout start_timeout \
                 max_requests max_requests_jitter worker_memory_max",
    },
    Group { heading: "Handlers in C", common: "", others: "cflags libs" },
    Group { heading: "Development", common: "reload", others: "" },
    Group {
        heading: "Limits",
        common: "body_size_max idle_time_max",
        others: "request_line_size_max field_size_max fields_size_max fields_count_max \
                 extensions_size_max connections_max connections_per_address_max head_time_max \
                 pause_max pace_grace pace_min linger_time_max linger_pause_max linger_size_max \
                 steps_per_turn_max output_size_high",
    },
    Group { heading: "TLS", common: "tls_cert tls_key", others: "" },
    Group {
        heading: "Logs and metrics",
        common: "access_log metrics",
        others: "log_format request_id quiet",
    },
    Group { heading: "Process", common: "user", others: "group pid_file store_folder" },
    Group {
        heading: "Reload and end",
        common: "",
        others: "drain_window drain_timeout drain_streams stop_window stop_timeout",
    },
    Group { heading: "Laboratory", common: "", others: super::content_args::LAB_IDS },
];

#[cfg(test)]
mod tests {
    use crate::serve::{LAB_VERB, Serve};

    /// The help of `verb`, of common or of all options.
    fn help(verb: &str, flag: &str) -> String {
        let shown = Serve::command(verb).try_get_matches_from([verb, flag]);
        shown.expect_err("help is no match").to_string()
    }

    #[test]
    fn every_option_is_in_a_group() {
        crate::help::check(&Serve::command("serve"), &super::GROUPS);
    }

    #[test]
    fn the_common_options_are_few_and_all_are_in_the_long_help() {
        let (short, long) = (help("serve", "--help"), help("serve", "--help-all"));
        assert_eq!(short, help("serve", "-h"));
        let count = |text: &str| text.lines().filter(|line| line.contains("  --")).count();
        assert!(count(&short) <= 18 && count(&long) > 60, "{short}");
        for heading in ["What is served:", "Where:", "Limits:", "TLS:", "Development:"] {
            assert!(short.contains(heading), "{heading} in {short}");
        }
    }

    #[test]
    fn the_laboratory_is_in_its_own_help_only() {
        let words = ["contract", "echo", "--delay", "--busy", "--cause", " fault", "benchmark"];
        for text in [help("serve", "--help"), help("serve", "--help-all")] {
            let found = words.iter().find(|word| text.to_lowercase().contains(**word));
            assert_eq!(found, None, "{text}");
        }
        let lab = help(LAB_VERB, "--help-all");
        for flag in ["--contract", "--echo", "--delay", "--busy-ns", "--cause", "--listen"] {
            assert!(lab.contains(flag), "{flag} in {lab}");
        }
        assert!(lab.contains("jissoku lab serve [OPTIONS]"), "{lab}");
    }

    #[test]
    fn the_flags_of_the_laboratory_are_refused_with_the_right_verb() {
        for flags in [
            &["--contract"][..],
            &["--echo"],
            &["--fixed", "x", "--delay", "1s"],
            &["--fixed", "x", "--busy-ns=1"],
            &[".", "--cause", "split"],
        ] {
            let all: Vec<String> = ["serve"].iter().chain(flags).map(ToString::to_string).collect();
            let why = Serve::read(&all, None).expect_err("it is refused").to_string();
            assert!(why.ends_with(" is for the laboratory: write jissoku lab serve"), "{why}");
        }
    }
}
