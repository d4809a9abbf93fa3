/* Counts the requests of each second in a store that all workers share, and draws those of the last
 * minute at /requests.svg. The store is in requests.toml, beside this file. */
#include <jissoku.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECONDS 60

static jsk_store *requests;

int jsk_start(const jsk_api *js, void **state) {
    (void)state;
    return js->store_open("requests", &requests);
}

/* The key of a second. */
static jsk_str key_of(time_t second, char buffer[24]) {
    snprintf(buffer, 24, "%lld", (long long)second);
    return jsk_text(buffer);
}

static int draw(const jsk_api *js, jsk_request *r, time_t now) {
    static const char *const labels[] = {"1 min ago", "30 s ago", "now"};
    double counts[SECONDS] = {0};
    jsk_series series = {NULL, counts, SECONDS};
    jsk_chart chart = {0};
    char buffer[24];
    /* The second that has not ended is not drawn. */
    for (int i = 0; i < SECONDS; i++) {
        size_t size = sizeof buffer - 1;
        if (js->store_read(requests, key_of(now - SECONDS + i, buffer), buffer, &size) == 1) {
            buffer[size < sizeof buffer ? size : 0] = 0;
            counts[i] = atof(buffer);
        }
    }
    chart.title = "Requests per second";
    chart.series = &series;
    chart.series_count = 1;
    chart.labels = labels;
    chart.label_count = 3;
    jsk_str svg = js->chart(r, JSK_LINE, &chart, NULL);
    js->header(r, "Content-Type", "image/svg+xml");
    js->header(r, "Cache-Control", "no-store");
    return js->respond(r, 200, svg.ptr, svg.len);
}

int jsk_handle(const jsk_api *js, jsk_request *r) {
    time_t now = time(NULL);
    char buffer[24];
    jsk_str path = js->path(r);
    js->store_increment(requests, key_of(now, buffer), 1, 0, NULL);
    if (path.len == 13 && memcmp(path.ptr, "/requests.svg", 13) == 0)
        return draw(js, r, now);
    js->header(r, "Content-Type", "text/plain");
    return js->printf(r, 200, "Hello, World!\n");
}
