#include "net/dashboard/dashboard_state.h"

#include "base/clock.h"
#include "base/instant.h"
#include "core/mechanism.h"
#include "serve/catalogue.h"
#include "serve/domain.h"
#include "serve/domain_advice.h"
#include "serve/model_stats.h"
#include "serve/scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_count(struct tt_text *json, const char *name, int64_t value) {
    tt_text_puts(json, name);
    tt_text_put_integer(json, value);
}

/* ---- the query ---- */

struct query {
    const char *cursor; /* not terminated */
    size_t cursor_bytes;
    int64_t generation; /* -1: the client has none */
};

static enum tt_err read_query(const char *text, struct query *out, struct tt_error *why) {
    static const char after[] = "after=", generation[] = "generation=";
    *out = (struct query){.cursor = "", .generation = -1};
    while (*text) {
        size_t length = strcspn(text, "&");
        if (strncmp(text, after, sizeof(after) - 1) == 0) {
            out->cursor = text + sizeof(after) - 1;
            out->cursor_bytes = length - (sizeof(after) - 1);
        } else if (strncmp(text, generation, sizeof(generation) - 1) == 0) {
            char *end;
            out->generation = strtoll(text + sizeof(generation) - 1, &end, 10);
            if (end != text + length || end == text + sizeof(generation) - 1)
                return tt_fail(TT_ERR_INVALID, why,
                               "generation: it must be the `generation` of the last answer");
        } else {
            return tt_fail(TT_ERR_INVALID, why,
                           "the query may be generation=G&after=CURSOR, as in the last answer");
        }
        text += length + (text[length] == '&');
    }
    return TT_OK;
}

/* ---- models ---- */

static void put_dropped(struct tt_text *json, const struct tt_model_stats *stats) {
    tt_text_puts(json, ",\"dropped\":{");
    for (int i = TT_DROP_DEADLINE; i <= TT_DROP_WITHDRAWN; i++) {
        tt_dashboard_put_string(json, i > TT_DROP_DEADLINE ? "," : "",
                                tt_drop_reason_name((enum tt_drop_reason)i));
        put_count(json, ":", tt_counter_get(&stats->dropped[i]));
    }
    tt_text_puts(json, "}");
}

/* Per batch size that ran: rows, batches, and how long they ran together. */
static void put_sizes(struct tt_text *json, const struct tt_model_stats *stats) {
    bool any = false;
    tt_text_puts(json, ",\"sizes\":[");
    for (int32_t rows = 1; rows <= TT_STATS_MAX_BATCH; rows++) {
        const struct tt_batch_stats *batches = &stats->by_size[rows];
        int64_t count = tt_counter_get(&batches->count);
        if (count == 0)
            continue;
        put_count(json, any ? ",[" : "[", rows);
        put_count(json, ",", count);
        put_count(json, ",", tt_counter_get(&batches->infer_ns) / 1000);
        tt_text_puts(json, "]");
        any = true;
    }
    tt_text_puts(json, "]");
}

static void put_counters(struct tt_text *json, const struct tt_model_stats *stats, int64_t now) {
    int64_t succeeded = tt_counter_get(&stats->succeeded), late = tt_counter_get(&stats->late);
    int64_t since = tt_counter_get(&stats->waiting_since);
    put_count(json, ",\"accepted\":", tt_counter_get(&stats->accepted));
    put_count(json, ",\"on_time\":", succeeded - late);
    put_count(json, ",\"late\":", late);
    put_count(json, ",\"failed\":", tt_counter_get(&stats->failed));
    put_count(json, ",\"rejected\":", tt_counter_get(&stats->rejected));
    put_count(json, ",\"cancelled\":", tt_counter_get(&stats->cancelled));
    put_dropped(json, stats);
    put_count(json, ",\"in_flight\":", tt_model_stats_in_flight(stats));
    put_count(json, ",\"queue\":", tt_counter_get(&stats->waiting));
    put_count(json, ",\"oldest_us\":", since > 0 && now > since ? (now - since) / 1000 : 0);
    put_count(json, ",\"rows\":", tt_counter_get(&stats->rows));
    put_count(json, ",\"batches\":", tt_counter_get(&stats->batches));
    put_sizes(json, stats);
}

static void put_models(struct tt_text *json, const struct tt_catalogue *catalogue, int64_t now) {
    int32_t count = catalogue ? catalogue->count : 0;
    int32_t shown = count < TT_DASHBOARD_MODELS ? count : TT_DASHBOARD_MODELS;
    tt_text_puts(json, ",\"models\":[");
    for (int32_t i = 0; i < shown; i++) {
        const struct tt_catalogue_entry *entry = &catalogue->entries[i];
        tt_dashboard_put_string(json, i ? ",{\"name\":" : "{\"name\":", entry->name);
        tt_dashboard_put_string(json, ",\"version\":", entry->version);
        tt_dashboard_put_string(json,
                                ",\"state\":", tt_model_state_name(tt_catalogue_state(entry)));
        tt_dashboard_put_string(json, ",\"reason\":", tt_catalogue_reason(entry));
        if (entry->stats)
            put_counters(json, entry->stats, now);
        tt_text_puts(json, "}");
    }
    put_count(json, "],\"models_left_out\":", count - shown);
}

/* ---- executors ---- */

enum { MAX_DOMAINS = 64, POLICY_BYTES = 48 };

struct domain_copy {
    char policy[POLICY_BYTES];
    int32_t number, executor_count, shown, wanted;
};

struct executors {
    int32_t domain_count, count;
    struct domain_copy domains[MAX_DOMAINS];
    int64_t busy_ns[TT_DASHBOARD_EXECUTORS]; /* of all domains, one after the other */
};

/* No turn runs meanwhile, so this only copies. */
static void copy_domain(void *context, int32_t index, const struct tt_domain *domain) {
    struct executors *self = context;
    if (index >= MAX_DOMAINS)
        return;
    struct domain_copy *copy = &self->domains[self->domain_count++];
    snprintf(copy->policy, sizeof(copy->policy), "%s", domain->policy);
    copy->number = domain->tap ? tt_trace_tap_domain(domain->tap) : -1;
    copy->executor_count = domain->executor_count;
    copy->shown = copy->wanted = 0;
    for (int32_t e = 0; e < domain->meter.executor_count && self->count < TT_DASHBOARD_EXECUTORS;
         e++) {
        self->busy_ns[self->count++] = tt_counter_get(&domain->meter.busy_ns[e]);
        copy->shown++;
    }
}

/* S9 */
static void copy_advice(void *context, const struct tt_domain_advice *advice) {
    struct executors *self = context;
    if (advice->index < self->domain_count && advice->wanted.confidence > 0)
        self->domains[advice->index].wanted = advice->wanted.count;
}

static void put_domains(struct tt_text *json, struct tt_serving *serving) {
    struct executors executors = {.domain_count = 0};
    tt_scheduler_domains(tt_serving_scheduler(serving), copy_domain, &executors);
    tt_domain_advices(tt_serving_scheduler(serving), tt_clock_now(), copy_advice, &executors);
    tt_text_puts(json, ",\"domains\":[");
    const int64_t *busy_ns = executors.busy_ns;
    for (int32_t i = 0; i < executors.domain_count; i++) {
        const struct domain_copy *domain = &executors.domains[i];
        tt_dashboard_put_string(json, i ? ",{\"policy\":" : "{\"policy\":", domain->policy);
        put_count(json, ",\"domain\":", domain->number);
        put_count(json, ",\"executors\":", domain->executor_count);
        put_count(json, ",\"wanted\":", domain->wanted);
        tt_text_puts(json, ",\"busy_us\":[");
        for (int32_t e = 0; e < domain->shown; e++)
            put_count(json, e ? "," : "", *busy_ns++ / 1000);
        tt_text_puts(json, "]}");
    }
    tt_text_puts(json, "]");
}

enum tt_err tt_dashboard_state(const struct tt_dashboard_source *source, const char *query,
                               struct tt_text *out_json, struct tt_error *why) {
    struct query asked;
    enum tt_err err = read_query(query, &asked, why);
    if (err)
        return err;
    const struct tt_catalogue *catalogue = tt_port_catalogue(source->port);
    int64_t generation = tt_port_generation(source->port), now = tt_clock_now();
    put_count(out_json, "{\"at_ms\":", tt_clock_wall() / TT_MS);
    put_count(out_json, ",\"now_us\":", now / 1000);
    put_count(out_json, ",\"generation\":", generation);
    put_models(out_json, catalogue, now);
    put_domains(out_json, source->serving);
    if (asked.generation != generation)
        tt_dashboard_put_setup(source, catalogue, out_json);
    err = tt_dashboard_put_recent(source->serving, asked.cursor, asked.cursor_bytes, now, out_json,
                                  why);
    tt_text_puts(out_json, "}");
    if (!err && out_json->failed)
        err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the live page");
    return err;
}
