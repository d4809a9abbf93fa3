//! The groups of options in the help of `jissoku load`.

use crate::help::Group;

pub(crate) static GROUPS: [Group; 8] = [
    Group {
        heading: "Load",
        common: "urls connections duration requests rate threads",
        others: "from arrival on_busy max_connections deadline warmup think ramp_up pipeline \
                 requests_per_conn no_keepalive slice slot settle warmup_requests idle_watch seed timeout",
    },
    Group {
        heading: "Requests",
        common: "method headers body",
        others: "url_file order raw websocket http_1_0",
    },
    Group { heading: "TLS", common: "insecure", others: "cacert session_reuse" },
    Group {
        heading: "Connections",
        common: "",
        others: "unix_socket connect_to host local_addr nodelay rcvbuf sndbuf",
    },
    Group {
        heading: "Bounds and series",
        common: "slo search",
        others: "step repeat sweep strict",
    },
    Group {
        heading: "Expected responses",
        common: "",
        others: "verify expect_status expect_len expect_body",
    },
    Group {
        heading: "Output",
        common: "json format latency histogram",
        others: "output hdr hlog timeseries raw_log events",
    },
    Group {
        heading: "The load generator itself",
        common: "",
        others: "self_test cores driver idle clock watch armed",
    },
];

#[cfg(test)]
mod tests {
    #[test]
    fn every_option_is_in_a_group() {
        let command = crate::command();
        let load = command.find_subcommand("load").expect("it is a verb");
        crate::help::check(load, &super::GROUPS);
    }
}
