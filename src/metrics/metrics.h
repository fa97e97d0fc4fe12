/* The metrics page of the server: Triton's names where the meaning is the same (nv_*), our own
 * (tutti_*) where it has none, and the usual ones of a process (process_*).
 *
 * metrics.c has one table of families: name, type, unit, help, which labels its samples have, and
 * where the value comes from. A new metric is one line there. The page only reads counters that
 * other threads write; its numbers belong to nearly the same moment, not to exactly the same. */
#ifndef TT_METRICS_METRICS_H
#define TT_METRICS_METRICS_H

#include "base/text.h"

struct tt_port;
struct tt_serving;

/* Appends the page, text format 0.0.4 of Prometheus. The port's thread. */
void tt_metrics_write(struct tt_serving *serving, struct tt_port *port, struct tt_text *out_page);

#endif
