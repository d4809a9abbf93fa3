// The common contract on Go's net/http, as its documentation shows how to write a server.
//
// net_http LISTEN FILES, where LISTEN is HOST:PORT or unix:PATH. GOMAXPROCS decides on how many cores
// the goroutines run.
package main

import (
	"fmt"
	"log"
	"mime"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const hello = "Hello, World!"

func text(w http.ResponseWriter, body string) {
	header := w.Header()
	header.Set("Content-Type", "text/plain")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write([]byte(body))
}

func root(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" || r.Method != http.MethodGet {
		http.NotFound(w, r)
		return
	}
	text(w, hello)
}

func fortyTwo(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		http.NotFound(w, r)
		return
	}
	header := w.Header()
	header["Date"] = nil // The contract of /42 names every field; this one is not among them.
	header.Set("Server", "bench")
	header.Set("Connection", "keep-alive")
	text(w, "42")
}

func delay(w http.ResponseWriter, r *http.Request) {
	ms, err := strconv.Atoi(r.URL.Query().Get("ms"))
	if err != nil || ms < 0 || ms > 60_000 {
		http.NotFound(w, r)
		return
	}
	time.Sleep(time.Duration(ms) * time.Millisecond)
	text(w, hello)
}

// FileServer lists folders, which the contract does not know.
func noListing(files http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/") || r.Method != http.MethodGet {
			http.NotFound(w, r)
			return
		}
		files.ServeHTTP(w, r)
	}
}

func listen(where string) (net.Listener, error) {
	if path, unix := strings.CutPrefix(where, "unix:"); unix {
		return net.Listen("unix", path)
	}
	return net.Listen("tcp", where)
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: net_http LISTEN FILES")
		os.Exit(2)
	}
	// Whether Go knows this suffix depends on files of the system it runs on.
	if err := mime.AddExtensionType(".bin", "application/octet-stream"); err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", root)
	mux.HandleFunc("/42", fortyTwo)
	mux.HandleFunc("/delay", delay)
	mux.Handle("/files/", noListing(http.StripPrefix("/files/", http.FileServer(http.Dir(os.Args[2])))))
	listener, err := listen(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(listener, mux))
}
