// A server that asks another one for eight parts at once, and sends them in one response.
//
// It takes two arguments: where to listen, and the server behind it, each as HOST:PORT or
// unix:PATH.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	parts     = 8
	limit     = time.Second
	sizeMax   = 256 * 1024
	idleConns = 1024
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: fan_out LISTEN SERVER")
	}
	network, address := place(os.Args[1])
	listener, err := net.Listen(network, address)
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: transport(os.Args[2]), Timeout: limit}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "parts"})
	proxy.Transport = client.Transport
	mux := http.NewServeMux()
	mux.Handle("/", proxy)
	mux.HandleFunc("/fan-out", func(response http.ResponseWriter, request *http.Request) {
		text := gather(request.Context(), client)
		header := response.Header()
		header.Set("Content-Type", "application/json")
		header.Set("Content-Length", strconv.Itoa(len(text)))
		response.Write(text)
	})
	log.Fatal(http.Serve(listener, mux))
}

// place returns the network and address of an argument.
func place(text string) (string, string) {
	if path, isUnix := strings.CutPrefix(text, "unix:"); isUnix {
		return "unix", path
	}
	return "tcp", text
}

// transport connects to one server, whatever the URL says.
func transport(server string) *http.Transport {
	network, address := place(server)
	dialer := net.Dialer{Timeout: limit}
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		},
		DisableCompression:  true,
		MaxIdleConns:        idleConns,
		MaxIdleConnsPerHost: idleConns,
	}
}

// gather returns one JSON object with the members of all parts that have come.
func gather(ctx context.Context, client *http.Client) []byte {
	var all [parts]map[string]json.RawMessage
	var done sync.WaitGroup
	for index := range all {
		done.Add(1)
		go func() {
			defer done.Done()
			part, err := ask(ctx, client, index+1)
			if err == nil {
				all[index] = part
			}
		}()
	}
	done.Wait()
	var text bytes.Buffer
	text.WriteByte('{')
	for _, part := range all {
		for name, value := range part {
			if text.Len() > 1 {
				text.WriteByte(',')
			}
			quoted, err := json.Marshal(name)
			if err != nil {
				continue
			}
			text.Write(quoted)
			text.WriteByte(':')
			text.Write(value)
		}
	}
	text.WriteString("}\n")
	return text.Bytes()
}

// ask returns the members of one part.
func ask(ctx context.Context, client *http.Client, number int) (map[string]json.RawMessage, error) {
	target := fmt.Sprintf("http://parts/part/%d.json", number)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, sizeMax))
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	err = json.Unmarshal(body, &members)
	return members, err
}
