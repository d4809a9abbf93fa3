// A server of Go's standard library with a fault behind each path: the address is its argument.
package main

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"time"
)

type node struct {
	left, right *node
}

func tree(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{tree(depth - 1), tree(depth - 1)}
}

func main() {
	// A pool of one connection, which takes 20 ms for a question.
	pool := make(chan struct{}, 1)
	http.HandleFunc("/pool", func(w http.ResponseWriter, _ *http.Request) {
		pool <- struct{}{}
		time.Sleep(20 * time.Millisecond)
		<-pool
		fmt.Fprint(w, "42")
	})
	http.HandleFunc("/regexp", func(w http.ResponseWriter, r *http.Request) {
		if regexp.MustCompile(`^/(item|order)s?/([a-z]+|[0-9]{1,10})(/|$)`).MatchString(r.URL.Path) {
			fmt.Fprint(w, "an item")
			return
		}
		fmt.Fprint(w, "42")
	})
	alive := tree(18)
	http.HandleFunc("/garbage", func(w http.ResponseWriter, _ *http.Request) {
		if tree(9) == alive {
			return
		}
		fmt.Fprint(w, "42")
	})
	http.HandleFunc("/clean", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "42") })
	if err := http.ListenAndServe(os.Args[1], nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
