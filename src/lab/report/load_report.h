/* The results of a load: a table and a page for people, JSON and a CSV line per request for
 * programs. docs/FORMATS.md lists every key and column. */
#ifndef TT_LAB_REPORT_LOAD_REPORT_H
#define TT_LAB_REPORT_LOAD_REPORT_H

#include "base/durable_file.h"
#include "base/text.h"
#include "lab/load/load.h"
#include "lab/report/load_series.h"

#include <jansson.h>
#include <stdio.h>

struct tt_load_report {
    const struct tt_load *load;
    const char *title, *url; /* title may be "" */
    bool interrupted;
    int64_t connections_opened;
    double generator_cpu_s;              /* processor time of the generator itself */
    int64_t generator_turns;             /* of its loop */
    const struct tt_load_series *series; /* for the page */
};

/* A new reference; NULL: out of memory. */
json_t *tt_load_report_json(const struct tt_load_report *self);
void tt_load_report_table(const struct tt_load_report *self, struct tt_text *out);
/* The latencies' distribution as a picture of its own. */
void tt_load_report_svg(const struct tt_load_report *self, struct tt_text *out);
/* Errors: NO_MEMORY, IO. */
TT_MUST_CHECK enum tt_err tt_load_report_html(const struct tt_load_report *self, const char *path,
                                              struct tt_error *why);

/* A line per request in the order in which they end, warm-up included. The file is replaced by the
 * close (base/durable_file.h). */
struct tt_load_csv {
    struct tt_durable_out out; /* without a file: none is written */
};

/* `path` is borrowed until close. Errors: IO. */
TT_MUST_CHECK enum tt_err tt_load_csv_open(struct tt_load_csv *self, const char *path,
                                           struct tt_error *why);
void tt_load_csv_put(struct tt_load_csv *self, const struct tt_scenario *scenario,
                     const struct tt_load_request *request, int64_t sent_at, int64_t ended_at,
                     enum tt_load_outcome outcome, int32_t status);
/* Errors: IO, when any line could not be written: the file is as it was. */
TT_MUST_CHECK enum tt_err tt_load_csv_close(struct tt_load_csv *self, struct tt_error *why);

#endif
