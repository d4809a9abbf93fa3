// A server that burns a known share of each request's CPU time in injectedBurn.
package main

import (
	"net/http"
	"os"
	"strconv"
)

const units = 400000

var sink uint64

//go:noinline
func injectedBurn(rounds int) {
	x := uint64(1)
	for i := 0; i < rounds; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink = x
}

//go:noinline
func ordinaryWork(rounds int) {
	x := uint64(2)
	for i := 0; i < rounds; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink = x
}

func main() {
	burnt, _ := strconv.Atoi(os.Args[2])
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		injectedBurn(units * burnt / 1000)
		ordinaryWork(units * (1000 - burnt) / 1000)
		w.Header().Set("Date", "Thu, 01 Jan 2026 00:00:00 GMT")
		w.Write([]byte("ok"))
	})
	http.ListenAndServe("127.0.0.1:"+os.Args[1], nil)
}
