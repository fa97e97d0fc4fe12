#include "client/metrics_page.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 64 };

void tt_metrics_page_init(struct tt_metrics_page *self, const char *text, size_t length) {
    *self = (struct tt_metrics_page){.at = text, .end = text + length};
}

static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == ':';
}

static const char *skip_blanks(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

/* Finds the closing brace from after the opening one; quoted values may contain braces. NULL:
 * none. */
static const char *find_brace(const char *at, const char *end) {
    bool quoted = false;
    for (; at < end; at++) {
        if (quoted && *at == '\\' && at + 1 < end)
            at++;
        else if (*at == '"')
            quoted = !quoted;
        else if (*at == '}' && !quoted)
            return at;
    }
    return NULL;
}

static bool read_line(const char *at, const char *end, struct tt_metric *out) {
    struct tt_metric metric = {.name = at};
    while (at < end && is_name(*at))
        at++;
    metric.name_length = (size_t)(at - metric.name);
    at = skip_blanks(at, end);
    if (metric.name_length == 0)
        return false;
    if (at < end && *at == '{') {
        const char *brace = find_brace(at + 1, end);
        if (!brace)
            return false;
        metric.labels = at + 1;
        metric.labels_length = (size_t)(brace - metric.labels);
        at = skip_blanks(brace + 1, end);
    }
    char number[NUMBER_BYTES], *number_end;
    size_t length = 0;
    while (at < end && length < sizeof(number) - 1 && *at != ' ' && *at != '\t' && *at != '\r')
        number[length++] = *at++;
    number[length] = '\0';
    metric.value = strtod(number, &number_end);
    if (length == 0 || *number_end)
        return false;
    *out = metric;
    return true;
}

bool tt_metrics_page_next(struct tt_metrics_page *self, struct tt_metric *out_metric) {
    while (self->at < self->end) {
        const char *line = self->at;
        const char *line_end = memchr(line, '\n', (size_t)(self->end - line));
        line_end = line_end ? line_end : self->end;
        self->at = line_end < self->end ? line_end + 1 : self->end;
        if (*line != '#' && read_line(skip_blanks(line, line_end), line_end, out_metric))
            return true;
    }
    return false;
}

bool tt_metric_is(const struct tt_metric *metric, const char *name) {
    return strlen(name) == metric->name_length &&
           memcmp(name, metric->name, metric->name_length) == 0;
}

/* Unescapes from after the opening quote; returns the place after the closing one, or NULL. */
static const char *read_value(const char *at, const char *end, char *out, size_t capacity,
                              bool *out_fits) {
    size_t length = 0;
    for (; at < end && *at != '"'; at++) {
        char c = *at;
        if (c == '\\' && at + 1 < end) {
            at++;
            c = *at == 'n' ? '\n' : *at;
        }
        if (length + 1 < capacity)
            out[length] = c;
        length++;
    }
    *out_fits = length + 1 <= capacity;
    if (*out_fits)
        out[length] = '\0';
    return at < end ? at + 1 : NULL;
}

bool tt_metric_label(const struct tt_metric *metric, const char *label, char *out,
                     size_t capacity) {
    const char *at = metric->labels, *end = at + metric->labels_length;
    size_t wanted = strlen(label);
    while (at && at < end) {
        at = skip_blanks(at, end);
        const char *name = at;
        while (at < end && is_name(*at))
            at++;
        bool is_it = (size_t)(at - name) == wanted && memcmp(name, label, wanted) == 0;
        at = skip_blanks(at, end);
        if (at >= end || *at != '=')
            return false;
        at = skip_blanks(at + 1, end);
        if (at >= end || *at != '"')
            return false;
        char ignored[1];
        bool fits;
        at = read_value(at + 1, end, is_it ? out : ignored, is_it ? capacity : sizeof(ignored),
                        &fits);
        if (is_it)
            return at && fits;
        at = at ? skip_blanks(at, end) : NULL;
        if (at && at < end && *at == ',')
            at++;
    }
    return false;
}
