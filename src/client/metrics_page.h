/* A page of metrics as Prometheus reads it (text format 0.0.4), walked sample by sample without
 * copying: what `tutti top` shows comes from here. Comments, and lines that are no samples, are
 * passed over, since a page may hold what its reader does not know. */
#ifndef TT_CLIENT_METRICS_PAGE_H
#define TT_CLIENT_METRICS_PAGE_H

#include <stdbool.h>
#include <stddef.h>

struct tt_metrics_page {
    const char *at, *end;
};

/* Borrowed from the page. */
struct tt_metric {
    const char *name, *labels; /* labels: between the braces; NULL: there are none */
    size_t name_length, labels_length;
    double value;
};

void tt_metrics_page_init(struct tt_metrics_page *self, const char *text, size_t length);
/* The next sample; false: the page is over. */
bool tt_metrics_page_next(struct tt_metrics_page *self, struct tt_metric *out_metric);
bool tt_metric_is(const struct tt_metric *metric, const char *name);
/* The label's value, unescaped and NUL-terminated; false: there is none, or it does not fit. */
bool tt_metric_label(const struct tt_metric *metric, const char *label, char *out, size_t capacity);

#endif
