// A server that burns a known share of each request's CPU time in injectedBurn.
//
//	server PORT BURN_PERMILLE [ORDINARY_PERMILLE FILE]
//
// As server.c, with net/http. The CPU time of a call is that of the thread to which it is locked meanwhile.
package main

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"unsafe"
)

const (
	units         = 400000
	logged        = 32
	monotonic     = 1
	threadCPUTime = 3
)

var (
	sink     uint64
	truth    *os.File
	lock     sync.Mutex
	requests int64
	burntNs  int64
)

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

func nowNs(clock uintptr) int64 {
	var time syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&time)), 0)
	return time.Nano()
}

func work(burn, ordinary int) {
	if truth == nil {
		injectedBurn(units / 1000 * burn)
		ordinaryWork(units / 1000 * ordinary)
		return
	}
	runtime.LockOSThread()
	startNs := nowNs(threadCPUTime)
	injectedBurn(units / 1000 * burn)
	spentNs := nowNs(threadCPUTime) - startNs
	runtime.UnlockOSThread()
	ordinaryWork(units / 1000 * ordinary)
	lock.Lock()
	defer lock.Unlock()
	requests++
	burntNs += spentNs
	if requests%logged == 0 {
		fmt.Fprintln(truth, nowNs(monotonic), requests, burntNs)
	}
}

func main() {
	burn, _ := strconv.Atoi(os.Args[2])
	ordinary := 1000 - burn
	if len(os.Args) > 3 {
		ordinary, _ = strconv.Atoi(os.Args[3])
	}
	if len(os.Args) > 4 {
		truth, _ = os.OpenFile(os.Args[4], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	}
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		work(burn, ordinary)
		w.Header().Set("Date", "Thu, 01 Jan 2026 00:00:00 GMT")
		w.Write([]byte("ok"))
	})
	http.ListenAndServe("127.0.0.1:"+os.Args[1], nil)
}
