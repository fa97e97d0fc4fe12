/* The metrics page of the server: Triton's names where the meaning is the same (nv_*), our own
 * (tutti_*) where it has none, and the usual ones of a process (process_*).
 *
 * metrics.c has one table of families: name, type, unit, help, which labels its samples have, and
 * where the value comes from. A new metric is one line there. The page only reads counters that
 * other threads write; its numbers belong to nearly the same moment, not to exactly the same.
 *
 * The page has two parts. That of the models grows with them and takes long; it can be written on a
 * thread of its own. That of the server is short, and takes the scheduler's lock. */
#ifndef TT_METRICS_METRICS_H
#define TT_METRICS_METRICS_H

#include "base/text.h"

struct tt_catalogue;
struct tt_serving;

/* Both append in the text format 0.0.4 of Prometheus, and no family is in both parts. */

/* The families with a sample for each model of the catalogue (NULL: none), of which the caller has
 * a reference. Any thread. */
void tt_metrics_write_models(const struct tt_catalogue *catalogue, struct tt_text *out_page);
/* The others. Any thread; for as long as a turn takes it waits for the scheduler. */
void tt_metrics_write_server(struct tt_serving *serving, struct tt_text *out_page);

#endif
