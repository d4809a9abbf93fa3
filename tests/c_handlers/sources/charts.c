/* A chart with every field, by its number in the query; the title is the query's, too. */
#include <jissoku.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A parameter as a text that ends with a zero. */
static const char *parameter(const jsk_api *js, jsk_request *r, const char *name, char buffer[2048]) {
    jsk_str value = js->query(r, name);
    size_t size = value.len < 2047 ? value.len : 2047;
    if (value.ptr == NULL)
        return NULL;
    memcpy(buffer, value.ptr, size);
    buffer[size] = 0;
    return buffer;
}

int jsk_handle(const jsk_api *js, jsk_request *r) {
    static const double today[] = {3, 5, NAN, 8}, yesterday[] = {4, 4};
    static const double positions[] = {-30, -20, -10, 0};
    static const char *const labels[] = {"a", "b <&>", "c", "d"};
    char kind[2048], title[2048];
    jsk_series series[] = {{"today", today, 4}, {NULL, yesterday, 2}};
    jsk_chart chart = {0};
    jsk_str drawing, why;
    if (!JSK_HAS(js, chart) || parameter(js, r, "kind", kind) == NULL)
        return js->printf(r, 404, "no chart");
    chart.title = parameter(js, r, "title", title);
    chart.unit = "requests";
    chart.x_title = "seconds";
    chart.series = series;
    chart.series_count = strcmp(kind, "1") == 0 || strcmp(kind, "2") == 0 ? 2 : 1;
    chart.labels = labels;
    chart.label_count = 4;
    chart.reach_high = 20;
    chart.bins = 5;
    chart.width = 500;
    chart.height = 300;
    if (js->query(r, "positions").ptr) {
        chart.positions = positions;
        chart.label_count = 0;
        chart.description = "four points";
    }
    drawing = js->chart(r, atoi(kind), &chart, &why);
    if (drawing.ptr == NULL)
        return js->respond(r, 400, why.ptr, why.len);
    js->header(r, "Content-Type", "image/svg+xml");
    return js->respond(r, 200, drawing.ptr, drawing.len);
}
