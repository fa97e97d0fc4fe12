/* What the live page shows, as one JSON value: counters of models, what ran since the last answer,
 * executors, and how models are served.
 *
 * Nothing is kept between two answers: the client sends back the cursor and the generation of its
 * last answer, so any number of pages can be open, and none costs nothing. The members are in
 * docs/FORMATS.md. An answer is bounded by the limits below, whatever the load; what is left out is
 * counted.
 *
 * It knows no HTTP, and only reads. On the thread of the port. Implemented in dashboard_state.c,
 * dashboard_setup.c (what changes with the catalogue only) and dashboard_recent.c (what ran). */
#ifndef TT_NET_DASHBOARD_DASHBOARD_STATE_H
#define TT_NET_DASHBOARD_DASHBOARD_STATE_H

#include "base/err.h"
#include "base/text.h"
#include "serve/serving.h"

enum {
    TT_DASHBOARD_MODELS = 256,
    TT_DASHBOARD_EXECUTORS = 4096,
    TT_DASHBOARD_BATCHES = 4096, /* the latest ones */
};

struct tt_dashboard_source {
    struct tt_serving *serving; /* borrowed, as all of these */
    struct tt_port *port;       /* the thread's */
    const char *server_version;
    bool is_admin; /* the page may load and unload models */
};

/* `query`: what follows '?' in the target, "" for none: generation=G&after=CURSOR, as in the last
 * answer. Appends the JSON. INVALID (the query; the message says what it should be), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_dashboard_state(const struct tt_dashboard_source *source,
                                             const char *query, struct tt_text *out_json,
                                             struct tt_error *why);

/* ---- its parts ---- */

/* Appends `name` (with its punctuation) and the value as a JSON string. */
void tt_dashboard_put_string(struct tt_text *json, const char *name, const char *value);
/* Appends "setup":{...}: names, policies, objectives and profiles of the models that serve. */
void tt_dashboard_put_setup(const struct tt_dashboard_source *source,
                            const struct tt_catalogue *catalogue, struct tt_text *json);
/* Appends "names", "recent", "batches", "left_out", "lost" and "cursor": what ended since the
 * cursor (text as in the last answer; "": in the last second). INVALID, NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_dashboard_put_recent(struct tt_serving *serving, const char *cursor,
                                                  size_t cursor_bytes, int64_t now,
                                                  struct tt_text *json, struct tt_error *why);

#endif
