#include "cmd/profile_workers.h"

#include "base/clock.h"
#include "base/instant.h"
#include "cmd/outcome.h"
#include "lab/scenario/allocate.h"
#include "model/text/digest.h"
#include "profile/find_workers.h"
#include "profile/machine.h"
#include "profile/worker_search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USUAL_LENGTH = 16 };

/* Every mix measured so far; written to disk after each. */
struct keeper {
    struct tt_worker_file_origin origin;
    char digest[TT_DIGEST_BYTES], device[TT_WORKERS_DEVICE_BYTES], date[16];
    char output[4096], part[4200]; /* part "": nothing is kept on disk */
    struct tt_worker_mix *before;  /* of an interrupted run */
    int32_t before_count;
    struct tt_worker_mix *mixes;
    int32_t count, capacity, recalled;
    int64_t began_at;
    enum tt_err err; /* the first error of writing */
    struct tt_error why;
};

static void add(struct keeper *self, const struct tt_worker_mix *mix) {
    if (self->count == self->capacity) {
        self->capacity = self->capacity ? 2 * self->capacity : 64;
        self->mixes = tt_reallocate(self->mixes, (size_t)self->capacity, sizeof(*self->mixes));
    }
    self->mixes[self->count++] = *mix;
}

static enum tt_err write_file(const struct keeper *self, const char *path, struct tt_error *why) {
    struct tt_text text;
    tt_text_init(&text);
    tt_worker_file_print(&self->origin, self->mixes, self->count, &text);
    enum tt_err err = TT_OK;
    if (strcmp(path, "-") == 0)
        fputs(tt_text_string(&text), stdout);
    else
        err = tt_text_write_file(path, &text, why);
    tt_text_fini(&text);
    return err;
}

static bool recall(void *context, struct tt_worker_mix *mix) {
    struct keeper *self = context;
    for (int32_t i = 0; i < self->before_count; i++)
        if (memcmp(self->before[i].counts, mix->counts, sizeof(mix->counts)) == 0) {
            self->recalled++;
            add(self, &self->before[i]);
            return true;
        }
    return false;
}

static void keep(void *context, const struct tt_worker_mix *mix) {
    struct keeper *self = context;
    add(self, mix);
    if (*self->part && !self->err)
        self->err = write_file(self, self->part, &self->why);
}

static bool progress(void *context, int32_t done, int32_t total,
                     const int32_t counts[TT_WORKER_SIZES]) {
    const struct keeper *self = context;
    if (isatty(STDERR_FILENO)) {
        char workers[1024];
        int filled = done * 30 / total;
        int measured = done - self->recalled;
        long long left_s = measured > 0 ? (tt_clock_now() - self->began_at) / measured *
                                              (total - done) / 1000000000
                                        : 0;
        fprintf(stderr, "\r[%.*s%*s] %d/%d  about %lld s left  {%.40s}\033[K", filled,
                "##############################", 30 - filled, "", done, total, left_s,
                tt_worker_mix_print(counts, workers, sizeof(workers)));
    }
    return !tt_interrupted && !self->err;
}

static enum tt_err start_keeping(struct keeper *self, const struct tt_profile_workers *options,
                                 const char *path, int32_t length, struct tt_error *why) {
    enum tt_err err = tt_digest_file(path, self->digest, why);
    if (err)
        return err;
    self->origin = (struct tt_worker_file_origin){
        .source = "measured by tutti " TUTTI_VERSION,
        .device = tt_workers_device(self->device, sizeof(self->device)),
        .date = tt_machine_date(self->date, sizeof(self->date)),
        .model_sha256 = self->digest,
        .length = length};
    if (options->output)
        snprintf(self->output, sizeof(self->output), "%s", options->output);
    else
        snprintf(self->output, sizeof(self->output), "%s/workers.pbtxt", options->model->directory);
    self->began_at = tt_clock_now();
    if (strcmp(self->output, "-") == 0)
        return TT_OK;
    snprintf(self->part, sizeof(self->part), "%s.part", self->output);
    struct tt_error ignored; /* no interrupted run of this search */
    if (tt_worker_file_read(self->part, &self->origin, &self->before, &self->before_count,
                            &ignored))
        self->before_count = 0;
    return TT_OK;
}

/* How many choices of the total there are, and how many keep the objective. */
static int32_t count_choices(const struct keeper *self, int32_t total, int64_t slo_ns,
                             int32_t *out_kept) {
    int32_t choices = 0;
    *out_kept = 0;
    for (int32_t i = 0; i < self->count; i++)
        if (tt_worker_mix_total(&self->mixes[i]) == total) {
            choices++;
            *out_kept += tt_worker_mix_keeps(&self->mixes[i], slo_ns);
        }
    return choices;
}

/* One worker of the total's size, in ms; 0: it was not tried. */
static double alone_of(const struct keeper *self, int32_t total) {
    int32_t one[TT_WORKER_SIZES] = {0};
    one[__builtin_ctz((unsigned)total)] = 1;
    const struct tt_worker_mix *alone = tt_worker_search_best(self->mixes, self->count, total, one);
    return alone ? (double)alone->mean_ns / 1e6 : 0.0;
}

/* Per load: the best workers and one worker alone; then the options for tutti.pbtxt. Choices that
 * do not keep the objective go. */
static void print_summary(struct keeper *self, const struct tt_profile_workers *options) {
    int64_t slo_ns = options->slo_ns > 0 ? options->slo_ns : TT_NEVER;
    int32_t choices[TT_WORKER_SEARCH_MAX_TOTALS], kept[TT_WORKER_SEARCH_MAX_TOTALS];
    double alone_ms[TT_WORKER_SEARCH_MAX_TOTALS];
    for (int32_t t = 0; t < options->total_count; t++) {
        choices[t] = count_choices(self, options->totals[t], slo_ns, &kept[t]);
        alone_ms[t] = alone_of(self, options->totals[t]);
    }
    self->count = tt_worker_search_within(self->mixes, self->count, slo_ns);
    fprintf(stderr, "%5s %7s %7s %12s %12s %14s  %s\n", "rows", "choices", "in time", "best ms",
            "all done ms", "one worker ms", "best workers");
    for (int32_t t = 0; t < options->total_count; t++) {
        int32_t total = options->totals[t];
        const struct tt_worker_mix *best =
            tt_worker_search_best(self->mixes, self->count, total, NULL);
        char workers[1024];
        if (best)
            fprintf(stderr, "%5d %7d %7d %12.3f %12.3f %14.3f  %s\n", total, choices[t], kept[t],
                    (double)best->mean_ns / 1e6, (double)best->last_ns / 1e6, alone_ms[t],
                    tt_worker_mix_print(best->counts, workers, sizeof(workers)));
    }
    if (options->slo_ns > 0)
        fprintf(stderr,
                "in time: choices that keep the objective of %.3f ms whichever worker begins last, "
                "and whenever it does\n",
                (double)options->slo_ns / 1e6);
    struct tt_worker_options found;
    if (tt_worker_search_options_of(self->mixes, self->count, NULL, &found))
        fprintf(stderr,
                "policy elastic, variant enhanced, takes from it: workers \"%s\", configurations "
                "\"%s\"\n",
                found.workers, found.configurations);
}

static enum tt_err search(struct keeper *self, const struct tt_profile_workers *options,
                          struct tt_engine_model *loaded, struct tt_error *why) {
    const struct tt_worker_search_options how = {.totals = options->totals,
                                                 .total_count = options->total_count,
                                                 .largest =
                                                     options->largest ? options->largest : 64,
                                                 .length = self->origin.length,
                                                 .runs = options->runs,
                                                 .least_ns = 50 * TT_MS,
                                                 .max_ns = 2 * TT_S,
                                                 .progress = progress,
                                                 .recall = recall,
                                                 .keep = keep,
                                                 .context = self};
    enum tt_err err = tt_worker_search(loaded, &how, why);
    if (isatty(STDERR_FILENO))
        fputc('\n', stderr);
    if (self->err)
        return tt_fail(self->err, why, "%s", self->why.text);
    if (err == TT_ERR_CANCELLED && *self->part)
        return tt_fail(err, why, "interrupted; run it again to continue from %d choices",
                       self->count);
    if (!err)
        err = write_file(self, self->output, why);
    if (!err && *self->part) {
        unlink(self->part);
        print_summary(self, options);
        fprintf(stderr, "tutti profile: wrote %d choices (%d of them from an earlier run) to %s\n",
                self->count, self->recalled, self->output);
    }
    return err;
}

enum tt_err tt_profile_workers(const struct tt_profile_workers *options, struct tt_error *why) {
    const struct tt_repository_model *model = options->model;
    const struct tt_signature *signature = &model->config->signature;
    const char *path = model->versions[model->version_count - 1].path;
    if (!signature->batched)
        return tt_fail(TT_ERR_INVALID, why,
                       "model %s does not batch (max_batch_size 0); a search needs a batched model",
                       model->name);
    struct tt_engine_model_spec load = {.form = TT_ENGINE_GRAPH,
                                        .name = model->name,
                                        .path = path,
                                        .signature = signature,
                                        .batched = true,
                                        .max_batch = signature->max_batch};
    struct tt_engine_model *loaded;
    struct tt_text config;
    tt_text_init(&config);
    if (tt_model_config_json(model->config, &config) == TT_OK)
        load.config_json = tt_text_string(&config);
    enum tt_err err = tt_engine_load(options->runtime, options->engine, &load, &loaded, why);
    tt_text_fini(&config);
    if (err)
        return err;
    struct keeper *self = tt_allocate(1, sizeof(*self));
    int32_t length = options->length ? options->length : USUAL_LENGTH;
    err = start_keeping(self, options, path, tt_signature_varies(signature) ? length : 0, why);
    if (!err)
        err = search(self, options, loaded, why);
    options->engine->ops->unload(loaded);
    free(self->before);
    free(self->mixes);
    free(self);
    return err;
}
