#include "lab/plan/plan_load.h"

#include "base/clock.h"
#include "base/instant.h"
#include "client/http_fetch.h"
#include "client/http_login.h"
#include "client/metrics_page.h"
#include "lab/replay/replay.h"
#include "lab/scenario/allocate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FETCH_NS (5 * TT_S)

static int32_t find_model(const struct tt_plan_models *models, const char *name) {
    for (int32_t m = 0; m < models->count; m++)
        if (strcmp(models->items[m].from->name, name) == 0)
            return m;
    return -1;
}

/* ---- a recording ---- */

struct taken {
    const struct tt_plan_models *models;
    struct tt_sim_arrival *items;
    int64_t count;
    int64_t base_at;  /* of the first arrival of any domain; TT_NEVER: none yet */
    char others[300]; /* names of models that are not planned */
};

static void note_other(struct taken *self, const char *name) {
    size_t used = strlen(self->others);
    if (!strstr(self->others, name))
        snprintf(self->others + used, sizeof(self->others) - used, "%s%s", used ? ", " : "", name);
}

/* Appends the domain's requests; instants are absolute here. */
static void take_domain(struct taken *self, const struct tt_replay *replay) {
    self->items = tt_reallocate(self->items, (size_t)(self->count + replay->arrival_count) + 1,
                                sizeof(*self->items));
    for (int32_t m = 0; m < replay->model_count; m++)
        if (find_model(self->models, replay->models[m]->name) < 0)
            note_other(self, replay->models[m]->name);
    for (int64_t i = 0; i < replay->arrival_count; i++) {
        struct tt_sim_arrival arrival = replay->arrivals[i];
        int32_t model = find_model(self->models, replay->models[arrival.model]->name);
        if (model < 0)
            continue;
        int64_t slo_ns = self->models->items[model].slo_ns;
        arrival.model = model;
        arrival.at += replay->base_at;
        arrival.deadline_at = slo_ns > 0 ? arrival.at + slo_ns : TT_NEVER;
        if (arrival.cancel_at != TT_NEVER)
            arrival.cancel_at += replay->base_at;
        self->items[self->count++] = arrival;
    }
}

static int by_instant(const void *a, const void *b) {
    const struct tt_sim_arrival *left = a, *right = b;
    if (left->at != right->at)
        return left->at > right->at ? 1 : -1;
    return (left->model > right->model) - (left->model < right->model);
}

static void from_zero(struct taken *self) {
    qsort(self->items, (size_t)self->count, sizeof(*self->items), by_instant);
    int64_t base_at = self->items[0].at;
    for (int64_t i = 0; i < self->count; i++) {
        self->items[i].at -= base_at;
        if (self->items[i].deadline_at != TT_NEVER)
            self->items[i].deadline_at -= base_at;
        if (self->items[i].cancel_at != TT_NEVER)
            self->items[i].cancel_at -= base_at;
    }
}

enum tt_err tt_plan_load_recording(const char *path, const struct tt_plan_models *models,
                                   struct tt_sim_arrival **out_arrivals, int64_t *out_count,
                                   struct tt_error *why) {
    struct tt_recording recording;
    struct taken taken = {.models = models};
    enum tt_err err = tt_recording_open(path, &recording, why);
    if (err)
        return err;
    for (int32_t d = 0; !err && d < recording.domain_count; d++) {
        struct tt_replay replay;
        err = tt_replay_run(&recording, d, false, NULL, &replay, why);
        if (err)
            break;
        take_domain(&taken, &replay);
        tt_replay_fini(&replay);
    }
    tt_recording_close(&recording);
    if (!err && taken.count < 2)
        err = tt_fail(TT_ERR_INVALID, why,
                      "%s has %s of the planned models; it is a recording of: %s", path,
                      taken.count ? "a single request" : "no request",
                      taken.others[0] ? taken.others : "no other model");
    if (err) {
        free(taken.items);
        return err;
    }
    from_zero(&taken);
    *out_arrivals = taken.items;
    *out_count = taken.count;
    return TT_OK;
}

enum tt_err tt_plan_load_write(const char *path, const struct tt_plan_models *models,
                               const struct tt_sim_arrival *arrivals, int64_t count,
                               int64_t until_at, struct tt_error *why) {
    struct tt_text text;
    tt_text_init(&text);
    tt_text_puts(&text, "at_ns,model,input_length,rows,deadline_ns\n");
    for (int64_t i = 0; i < count && arrivals[i].at < until_at; i++) {
        const struct tt_sim_arrival *arrival = &arrivals[i];
        tt_text_printf(&text, "%lld,%s,%d,%d,", (long long)arrival->at,
                       models->items[arrival->model].from->name, arrival->length, arrival->rows);
        if (arrival->deadline_at != TT_NEVER)
            tt_text_put_integer(&text, arrival->deadline_at);
        tt_text_puts(&text, "\n");
    }
    enum tt_err err = text.failed ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory")
                                  : tt_text_write_file(path, &text, why);
    tt_text_fini(&text);
    return err;
}

/* ---- a live server ---- */

/* Requests accepted so far, by planned model; `*out_known`: how many models the server has. */
static enum tt_err read_counts(const struct tt_http_address *address,
                               const struct tt_plan_models *models, double *counts,
                               int32_t *out_known, struct tt_error *why) {
    struct tt_text page;
    enum tt_err err = tt_http_fetch(address, "/metrics", NULL, FETCH_NS, &page, why);
    if (err)
        return err;
    struct tt_metrics_page reader;
    struct tt_metric metric;
    char name[256];
    *out_known = 0;
    tt_metrics_page_init(&reader, page.bytes, page.length);
    for (int32_t m = 0; m < models->count; m++)
        counts[m] = 0;
    while (tt_metrics_page_next(&reader, &metric)) {
        if (!tt_metric_is(&metric, "tutti_requests_accepted_total") ||
            !tt_metric_label(&metric, "model", name, sizeof(name)))
            continue;
        int32_t m = find_model(models, name);
        *out_known += m >= 0;
        if (m >= 0)
            counts[m] += metric.value; /* of all versions */
    }
    tt_text_fini(&page);
    return TT_OK;
}

enum tt_err tt_plan_load_live(const char *url, const struct tt_http_login_options *options,
                              int64_t second_ns, struct tt_plan_models *models, double *out_rate,
                              struct tt_error *why) {
    struct tt_http_address address;
    struct tt_http_login login = {.tls = NULL};
    enum tt_err err = tt_http_address_parse(url, 8000, &address, why);
    if (!err)
        err = tt_http_login_open(&login, options, &address, why);
    double *before = tt_allocate(2 * (size_t)models->count, sizeof(*before));
    double *after = before + models->count, sum = 0;
    int32_t known = 0;
    int64_t from = tt_clock_now();
    if (!err)
        err = read_counts(&address, models, before, &known, why);
    if (!err) {
        struct timespec pause = {.tv_sec = second_ns / TT_S, .tv_nsec = second_ns % TT_S};
        nanosleep(&pause, NULL);
        err = read_counts(&address, models, after, &known, why);
    }
    double span_s = (double)(tt_clock_now() - from) / 1e9;
    for (int32_t m = 0; !err && m < models->count; m++)
        sum += after[m] - before[m];
    if (!err && (known == 0 || sum <= 0))
        err = tt_fail(TT_ERR_INVALID, why,
                      known == 0 ? "%s serves none of the planned models; see its /v2/repository/"
                                   "index"
                                 : "%s received no request of the planned models while its rates "
                                   "were read; give --rate instead",
                      url);
    for (int32_t m = 0; !err && m < models->count; m++)
        models->items[m].weight = (after[m] - before[m]) / sum;
    *out_rate = err ? 0 : sum / span_s;
    free(before);
    tt_http_login_close(&login);
    return err ? tt_fail_in(err, why, "--url") : TT_OK;
}
