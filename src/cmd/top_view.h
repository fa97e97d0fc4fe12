/* The view of `tutti top`, without the terminal: a page of metrics becomes a snapshot, and two
 * snapshots become a table of the changes between them.
 *
 * It reads Triton's metric names where the meaning is the same, so that it can also watch Triton,
 * and Tutti's names elsewhere. A value that the page lacks is shown as "-". A counter that
 * decreased belongs to a restarted server and counts from zero. */
#ifndef TT_CMD_TOP_VIEW_H
#define TT_CMD_TOP_VIEW_H

#include "base/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { TT_TOP_NAME_BYTES = 256, TT_TOP_BUCKETS = 256 };

enum tt_top_value {
    TT_TOP_SUCCESS,
    TT_TOP_INFERENCES, /* rows */
    TT_TOP_EXECUTIONS, /* batches */
    TT_TOP_REQUEST_US,
    TT_TOP_QUEUE_US,
    TT_TOP_COMPUTE_US,
    TT_TOP_ON_TIME,
    TT_TOP_LATE,
    TT_TOP_REFUSED, /* failures without cancellations */
    TT_TOP_CANCELLED,
    TT_TOP_COUNTERS, /* the values from here on are gauges */
    TT_TOP_IN_FLIGHT = TT_TOP_COUNTERS,
    TT_TOP_QUEUED,
    TT_TOP_SLO_S,
    TT_TOP_VALUES,
};

struct tt_top_model {
    char name[TT_TOP_NAME_BYTES], version[32], state[32];
    char policy[32]; /* "": the page does not say */
    bool has[TT_TOP_VALUES];
    double values[TT_TOP_VALUES];
    int32_t bucket_count; /* of a latency histogram: upper bounds in us, cumulative counts */
    double bounds_us[TT_TOP_BUCKETS], counts[TT_TOP_BUCKETS];
};

/* S9: the executors of a scheduling domain, and how many its load needs. */
enum { TT_TOP_DOMAINS = 16 }; /* others are not shown */
struct tt_top_domain {
    char number[16], policy[32];
    double executors, wanted, confidence; /* NAN: the page does not say */
};

struct tt_top_snapshot {
    int64_t at; /* the time of the snapshot */
    struct tt_top_model *models;
    int32_t count;
    struct tt_top_domain domains[TT_TOP_DOMAINS];
    int32_t domain_count;
};

void tt_top_snapshot_fini(struct tt_top_snapshot *self);
/* `index` is the repository's index with the states; may be NULL. NO_MEMORY; INVALID: the page
 * holds no metric of an inference server. */
TT_MUST_CHECK enum tt_err tt_top_snapshot_read(const char *page, size_t page_bytes,
                                               const char *index, size_t index_bytes, int64_t at,
                                               struct tt_top_snapshot *out_snapshot,
                                               struct tt_error *why);

/* By the share of bad requests, the largest first; the others by name. */
enum tt_top_order { TT_TOP_BY_BAD, TT_TOP_BY_NAME, TT_TOP_BY_RATE };

struct tt_top_table {
    const struct tt_top_snapshot *before, *after;
    enum tt_top_order order;
    int32_t line_limit, column_limit; /* 0: none */
    bool colours;                     /* rows with many bad requests are red */
};

/* Appends the table as text. If the columns do not fit in column_limit, the most important ones
 * stay: from 80 columns on bad %, p99, the objective, req/s, queued, batch, and the policy. */
void tt_top_table_write(const struct tt_top_table *self, struct tt_text *out);
/* {"interval_s", "models": [...], "domains": [...]}; docs/FORMATS.md has the keys. NULL: out of
 * memory. */
json_t *tt_top_table_json(const struct tt_top_table *self);

#endif
