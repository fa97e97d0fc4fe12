/* A page of metrics in Prometheus' text format 0.0.4, read sample by sample without copying; `tutti
 * top` uses it. Comments and lines that are not samples are skipped, since a page may contain forms
 * that its reader does not know. Implemented in metrics_page.c. */
#ifndef TT_CLIENT_METRICS_PAGE_H
#define TT_CLIENT_METRICS_PAGE_H

#include <stdbool.h>
#include <stddef.h>

struct tt_metrics_page {
    const char *at, *end;
};

/* Borrowed from the page. */
struct tt_metric {
    const char *name, *labels; /* labels: between the braces; NULL: none */
    size_t name_length, labels_length;
    double value;
};

void tt_metrics_page_init(struct tt_metrics_page *self, const char *text, size_t length);
/* Reads the next sample; false: the page ends. */
bool tt_metrics_page_next(struct tt_metrics_page *self, struct tt_metric *out_metric);
bool tt_metric_is(const struct tt_metric *metric, const char *name);
/* The label's value, unescaped and NUL-terminated; false: no such label, or it does not fit. */
bool tt_metric_label(const struct tt_metric *metric, const char *label, char *out, size_t capacity);

#endif
