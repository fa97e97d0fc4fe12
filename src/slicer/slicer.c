#include "slicer/slicer.h"

#include "base/durable_file.h"
#include "base/instant.h"
#include "base/regular_file.h"
#include "base/sort.h"
#include "engine/synthetic_input.h"
#include "model/onnx/slices.h"
#include "profile/blocking_run.h"
#include "profile/machine.h"
#include "slicer/stage_folders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    USUAL_LENGTH = 16,
    TIMED_RUNS = 15,
    LARGEST_TRIED = 32, /* batch, for what a node prefers */
    BATCHES_TRIED = 6,  /* 1, 2 .. LARGEST_TRIED */
    MAX_FILE_BYTES = INT32_MAX,
};

/* ---- analysis ---- */

static enum tt_err load_whole(struct tt_slicer *self, const char *save, struct tt_error *why) {
    const struct tt_slicer_options *options = &self->options;
    tt_assert(!self->whole);
    struct tt_engine_model_spec load = {.form = TT_ENGINE_GRAPH,
                                        .name = options->name,
                                        .path = options->path,
                                        .batched = options->batched,
                                        .max_batch = options->batched ? options->max_batch : 1,
                                        .portable = options->portable,
                                        .save_optimized = save};
    return tt_engine_load(options->runtime, options->engine, &load, &self->whole, why);
}

static enum tt_err take_apart(struct tt_slicer *self, const char *path, struct tt_error *why) {
    struct tt_text bytes;
    tt_assert(!self->graph);
    tt_text_init(&bytes);
    enum tt_err err = tt_regular_file_read(path, MAX_FILE_BYTES, &bytes, why);
    if (!err)
        err = tt_onnx_graph_new(self->options.path, bytes.bytes, bytes.length, &self->graph, why);
    tt_text_fini(&bytes);
    return err;
}

static const struct tt_engine_cutting *cutting_of(const struct tt_slicer_options *options) {
    return options->runtime->kind->cutting;
}

static const char *version_of(const struct tt_slicer_options *options) {
    return cutting_of(options)->version(options->runtime->shared);
}

static struct tt_engine_probe_options probe_options(struct tt_slicer *self) {
    tt_assert(self->whole != NULL);
    tt_assert(self->graph != NULL);
    return (struct tt_engine_probe_options){
        .shared = self->options.runtime->shared,
        .graph = self->graph,
        .signature = self->options.engine->ops->signature(self->whole),
        .length = self->options.length ? self->options.length : USUAL_LENGTH};
}

static enum tt_err time_nodes(struct tt_slicer *self, struct tt_error *why) {
    const struct tt_engine_probe_options options = probe_options(self);
    int32_t rows = self->options.rows ? self->options.rows : 1;
    int64_t *times_ns = calloc((size_t)self->graph->node_count + 1, sizeof(*times_ns));
    if (!times_ns)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    enum tt_err err = cutting_of(&self->options)
                          ->time_nodes(&options, self->probe.synthetic, rows, TIMED_RUNS,
                                       self->scratch, times_ns, why);
    for (int32_t i = 0; !err && i < self->graph->node_count; i++) {
        tt_assert(times_ns[i] >= 0);
        self->graph->nodes[i].time_ns = times_ns[i];
    }
    free(times_ns);
    snprintf(self->times, sizeof(self->times),
             "measured: median of %d runs, batch %d, length %d, one thread", TIMED_RUNS, rows,
             options.length);
    return err;
}

/* D1: per node, the smallest batch whose time per row is within a tenth of the best. */
static enum tt_err find_preferred(struct tt_slicer *self, struct tt_error *why) {
    const struct tt_engine_probe_options options = probe_options(self);
    size_t nodes = (size_t)self->graph->node_count + 1;
    int32_t most = options.signature->max_batch;
    most = most < LARGEST_TRIED ? most : LARGEST_TRIED;
    tt_assert(!self->preferred);
    int64_t *times_ns = calloc(nodes * BATCHES_TRIED, sizeof(*times_ns));
    self->preferred = calloc(nodes, sizeof(*self->preferred));
    enum tt_err err =
        times_ns && self->preferred ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    int32_t tried = 0;
    for (int32_t rows = 1; !err && rows <= most; rows *= 2, tried++)
        err = cutting_of(&self->options)
                  ->time_nodes(&options, self->probe.synthetic, rows, TIMED_RUNS, self->scratch,
                               &times_ns[nodes * (size_t)tried], why);
    tt_assert(err || tried >= 1);
    tt_assert(tried <= BATCHES_TRIED);
    for (int32_t i = 0; !err && i < self->graph->node_count; i++) {
        /* Times per row in units of 1 / LARGEST_TRIED ns, to stay integers. */
        int64_t best = INT64_MAX;
        for (int32_t k = 0; k < tried; k++) {
            int64_t share = times_ns[nodes * (size_t)k + (size_t)i] * (LARGEST_TRIED >> k);
            best = share < best ? share : best;
        }
        int32_t k = 0;
        while (times_ns[nodes * (size_t)k + (size_t)i] * (LARGEST_TRIED >> k) > best + best / 10)
            k++;
        tt_assert(k < tried);
        self->preferred[i] = 1 << k;
    }
    free(times_ns);
    return err;
}

static enum tt_err choose_count(struct tt_slicer *self, struct tt_error *why);

static enum tt_err analyse(struct tt_slicer *self, struct tt_error *why) {
    char optimized[300];
    enum tt_err err = tt_machine_scratch(self->scratch, sizeof(self->scratch), why);
    if (err)
        return err;
    snprintf(optimized, sizeof(optimized), "%s/optimized.onnx", self->scratch);
    err = load_whole(self, optimized, why);
    if (!err)
        err = take_apart(self, optimized, why);
    if (err)
        return err;
    const struct tt_engine_probe_options options = probe_options(self);
    err = cutting_of(&self->options)->probe(&options, &self->probe, why);
    if (!err)
        err = time_nodes(self, why);
    if (!err && self->options.cut.how == TT_CUT_BY_BATCH)
        err = find_preferred(self, why);
    if (err)
        return err;
    struct tt_cut_request cut = self->options.cut;
    cut.batched = self->options.batched;
    cut.preferred = self->preferred;
    return cut.how == TT_CUT_AUTO ? choose_count(self, why)
                                  : tt_cut_choose(self->graph, &cut, &self->plan, why);
}

enum tt_err tt_slicer_new(const struct tt_slicer_options *options, struct tt_slicer **out_slicer,
                          struct tt_error *why) {
    tt_assert(options->runtime->kind->cutting != NULL);
    tt_assert(options->max_batch >= 1 || !options->batched);
    tt_assert(options->rows >= 0);
    tt_assert(options->length >= 0);
    struct tt_slicer *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", options->name);
    self->options = *options;
    tt_cut_describe(&options->cut, self->asked, sizeof(self->asked));
    enum tt_err err = analyse(self, why);
    if (err) {
        bool named = strncmp(why->text, options->name, strlen(options->name)) == 0;
        tt_slicer_free(self);
        return named ? err : tt_fail_in(err, why, "%s", options->name);
    }
    tt_assert(self->plan->node_count == self->graph->node_count);
    *out_slicer = self;
    return TT_OK;
}

void tt_slicer_free(struct tt_slicer *take_slicer) {
    if (!take_slicer)
        return;
    if (take_slicer->whole)
        take_slicer->options.engine->ops->unload(take_slicer->whole);
    tt_onnx_graph_free(take_slicer->graph);
    tt_cut_plan_free(take_slicer->plan);
    free(take_slicer->preferred);
    if (*take_slicer->scratch)
        tt_machine_remove(take_slicer->scratch);
    free(take_slicer);
}

/* ---- outputs ---- */

/* Appends the bytes of all outputs for `rows` synthetic rows. */
static enum tt_err answers(struct tt_engine_model *model, int32_t rows, int32_t length,
                           enum tt_synthetic_input_kind kind, struct tt_text *out_bytes,
                           struct tt_error *why) {
    struct tt_engine *engine = model->engine;
    const struct tt_signature *signature = engine->ops->signature(model);
    struct tt_synthetic_input synthetic;
    enum tt_err err = tt_synthetic_input_init(&synthetic, signature, 0, rows, length, kind, why);
    if (err)
        return err;
    struct tt_blocking_run blocking_run;
    struct tt_engine_result *result;
    tt_blocking_run_begin(&blocking_run, engine);
    err = tt_blocking_run_whole(&blocking_run, model, rows, synthetic.views, NULL, &result, why);
    tt_blocking_run_end(&blocking_run);
    tt_synthetic_input_fini(&synthetic);
    if (err)
        return err;
    for (int32_t i = 0; i < signature->output_count; i++) {
        struct tt_tensor_view view;
        engine->ops->output(result, i, 0, rows, &view);
        tt_text_append(out_bytes, view.bytes, view.size_bytes);
    }
    engine->ops->result_release(result);
    return out_bytes->failed ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory") : TT_OK;
}

static enum tt_err compare_at(struct tt_slicer *self, struct tt_engine_model *sliced, int32_t rows,
                              struct tt_slices_check *check, struct tt_error *why) {
    struct tt_text whole, stages;
    tt_assert(sliced != self->whole);
    tt_text_init(&whole);
    tt_text_init(&stages);
    int32_t length = probe_options(self).length;
    enum tt_err err = answers(self->whole, rows, length, self->probe.synthetic, &whole, why);
    if (!err)
        err = answers(sliced, rows, length, self->probe.synthetic, &stages, why);
    if (!err && (whole.length != stages.length ||
                 memcmp(tt_text_string(&whole), tt_text_string(&stages), whole.length) != 0))
        err = tt_fail(
            TT_ERR_INTERNAL, why,
            "the outputs of the stages for a batch of %d rows differ from the whole model's; "
            "it cannot be served in stages here",
            rows);
    *check = (struct tt_slices_check){
        .rows = rows, .length = length, .synthetic = (int32_t)self->probe.synthetic};
    if (!err)
        err = tt_digest_bytes(tt_text_string(&whole), whole.length, check->outputs_sha256, why);
    tt_text_fini(&whole);
    tt_text_fini(&stages);
    return err;
}

static enum tt_err load_stages(struct tt_slicer *self, const char *directory,
                               struct tt_engine_model **out_sliced, struct tt_error *why) {
    const struct tt_slicer_options *options = &self->options;
    struct tt_engine_model_spec load = {.form = TT_ENGINE_STAGES,
                                        .name = options->name,
                                        .path = directory,
                                        .max_batch = options->batched ? options->max_batch : 1};
    return tt_engine_load(options->runtime, options->engine, &load, out_sliced, why);
}

static enum tt_err check_stages(struct tt_slicer *self, const char *directory,
                                struct tt_error *why) {
    const struct tt_slicer_options *options = &self->options;
    struct tt_engine_model *sliced;
    enum tt_err err = load_stages(self, directory, &sliced, why);
    if (err)
        return err;
    static const int32_t batches[] = {1, 3, 2}; /* the digest of the last is noted */
    struct tt_slices_check check = {0};
    for (size_t i = 0; !err && i < TT_COUNT(batches); i++)
        if (batches[i] == 1 || batches[i] <= options->engine->ops->signature(sliced)->max_batch)
            err = compare_at(self, sliced, batches[i], &check, why);
    options->engine->ops->unload(sliced);
    return err ? err : tt_slices_set_check(directory, &check, why);
}

/* ---- writing ---- */

static void fill_origin(struct tt_slicer *self, char *digest, char *processor,
                        struct tt_slices_origin *origin) {
    *origin = (struct tt_slices_origin){.model_sha256 = digest,
                                        .onnxruntime = version_of(&self->options),
                                        .device = processor,
                                        .asked = self->asked,
                                        .made_by = "tutti " TUTTI_VERSION,
                                        .times = self->times,
                                        .batched = self->options.batched};
    origin->signature = *self->options.engine->ops->signature(self->whole);
}

enum tt_err tt_slicer_write(struct tt_slicer *self, const char *directory, struct tt_error *why) {
    char digest[TT_DIGEST_BYTES], processor[256], part[4096];
    tt_cut_plan_check(self->plan);
    struct tt_slices_origin *origin = malloc(sizeof(*origin));
    enum tt_err err = origin ? tt_digest_file(self->options.path, digest, why)
                             : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    struct stat status;
    if (!err && stat(directory, &status) == 0)
        err = tt_fail(TT_ERR_INVALID, why, "%s is there already", directory);
    if (err) {
        free(origin);
        return err;
    }
    fill_origin(self, digest, tt_machine_processor(processor, sizeof(processor)), origin);
    snprintf(part, sizeof(part), "%s.part-%ld", directory, (long)getpid());
    err = tt_slices_write(self->graph, self->plan, origin, part, why);
    if (!err)
        err = check_stages(self, part, why);
    /* Another process may have made the same cut in the meantime: it is kept. */
    if (!err && tt_durable_directory(part))
        err = tt_fail(TT_ERR_IO, why, "%s: %s", part, strerror(errno));
    if (!err && tt_durable_rename(part, directory) && errno != ENOTEMPTY && errno != EEXIST)
        err = tt_fail(TT_ERR_IO, why, "%s: %s", directory, strerror(errno));
    tt_machine_remove(part);
    free(origin);
    return err;
}

/* ---- cost ---- */

static int64_t processor_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * TT_S + now.tv_nsec;
}

static enum tt_err timed_run(struct tt_blocking_run *blocking_run, struct tt_engine_model *model,
                             const struct tt_synthetic_input *synthetic, int64_t *out_ns,
                             struct tt_error *why) {
    struct tt_engine_result *result;
    int64_t started_at = processor_time();
    enum tt_err err = tt_blocking_run_whole(blocking_run, model, synthetic->rows, synthetic->views,
                                            NULL, &result, why);
    *out_ns = processor_time() - started_at;
    if (!err)
        model->engine->ops->result_release(result);
    return err;
}

static int64_t median(int64_t *values, int32_t count) {
    tt_sort_int64(values, count);
    return values[count / 2];
}

static enum tt_err run_pairs(struct tt_slicer *self, struct tt_engine_model *sliced,
                             const struct tt_synthetic_input *synthetic, int32_t runs,
                             int64_t *times, struct tt_error *why) {
    enum { WARM_UP = 2 };
    struct tt_blocking_run blocking_run;
    tt_blocking_run_begin(&blocking_run, self->options.engine);
    enum tt_err err = TT_OK;
    for (int32_t i = -WARM_UP; !err && i < runs; i++) {
        int64_t whole_ns, stages_ns = 0;
        err = timed_run(&blocking_run, self->whole, synthetic, &whole_ns, why);
        if (!err)
            err = timed_run(&blocking_run, sliced, synthetic, &stages_ns, why);
        if (err || i < 0)
            continue;
        times[i] = whole_ns;
        times[runs + i] = stages_ns;
        times[2 * runs + i] = stages_ns * 1000000 / (whole_ns > 0 ? whole_ns : 1);
    }
    tt_blocking_run_end(&blocking_run);
    return err;
}

enum tt_err tt_slicer_cost(struct tt_slicer *self, const char *directory, int32_t rows,
                           int32_t runs, struct tt_slicer_cost *out_cost, struct tt_error *why) {
    struct tt_synthetic_input synthetic;
    struct tt_engine_model *sliced;
    tt_assert(rows >= 1);
    tt_assert(runs >= 1);
    int64_t *times = calloc((size_t)runs * 3, sizeof(*times));
    if (!times)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    enum tt_err err =
        tt_synthetic_input_init(&synthetic, self->options.engine->ops->signature(self->whole), 0,
                                rows, probe_options(self).length, self->probe.synthetic, why);
    if (!err) {
        err = load_stages(self, directory, &sliced, why);
        if (!err) {
            err = run_pairs(self, sliced, &synthetic, runs, times, why);
            self->options.engine->ops->unload(sliced);
        }
        tt_synthetic_input_fini(&synthetic);
    }
    if (!err)
        *out_cost = (struct tt_slicer_cost){.whole_ns = median(times, runs),
                                            .stages_ns = median(times + runs, runs),
                                            .ratio_ppm = median(times + 2 * (size_t)runs, runs)};
    free(times);
    return err;
}

/* D1: chooses the number of stages by their cost. */
static enum tt_err choose_count(struct tt_slicer *self, struct tt_error *why) {
    static const int32_t counts[] = {1, 2, 3, 4, 6, 8, 12, 16};
    enum { PAIRS = 21, MAX_PPM = 1030000 };
    struct tt_cut_plan *best = NULL;
    enum tt_err err = TT_OK;
    for (size_t i = 0; !err && i < TT_COUNT(counts); i++) {
        struct tt_cut_request cut = {
            .how = TT_CUT_AUTO, .batched = self->options.batched, .count = counts[i]};
        char directory[300];
        struct tt_slicer_cost cost = {0};
        snprintf(directory, sizeof(directory), "%s/try-%d", self->scratch, counts[i]);
        tt_assert(!self->plan); /* the one before is `best`, or was freed */
        err = tt_cut_choose(self->graph, &cut, &self->plan, why);
        if (err == TT_ERR_INVALID && best) { /* no cut has more stages */
            err = TT_OK;
            break;
        }
        if (!err && best)
            err = tt_slicer_write(self, directory, why);
        if (!err && best)
            err = tt_slicer_cost(self, directory, self->options.rows ? self->options.rows : 1,
                                 PAIRS, &cost, why);
        if (!err && cost.ratio_ppm > MAX_PPM)
            break;
        tt_cut_plan_free(best);
        best = self->plan;
        self->plan = NULL;
    }
    tt_cut_plan_free(self->plan);
    self->plan = best;
    return err;
}

/* ---- finding ---- */

/* The name of the folder: a digest of everything that the cut depends on. */
static enum tt_err folder_name(const struct tt_slicer_options *options, char *out_name,
                               size_t capacity, struct tt_error *why) {
    char asked[512], model[TT_DIGEST_BYTES], all[TT_DIGEST_BYTES], processor[256];
    tt_cut_describe(&options->cut, asked, sizeof(asked));
    enum tt_err err = tt_digest_file(options->path, model, why);
    if (err)
        return err;
    struct tt_text text;
    tt_text_init(&text);
    /* The first line is the version of the slicer: it changes when equal requests give other
     * stages. */
    tt_text_printf(&text, "1\n%s\n%s\n%s\n%s\n%d %d %d\n%s", model, version_of(options),
                   tt_machine_processor(processor, sizeof(processor)), asked, options->batched,
                   options->length, options->rows, options->portable ? "portable\n" : "");
    err = text.failed ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory")
                      : tt_digest_bytes(text.bytes, text.length, all, why);
    tt_text_fini(&text);
    if (!err)
        snprintf(out_name, capacity, "stages-%.16s", all);
    return err;
}

/* Whether the folder has a cut that reproduces the outputs noted when it was made. */
static bool still_good(const struct tt_slicer_options *options, const char *directory) {
    struct tt_engine_model_spec load = {.form = TT_ENGINE_STAGES,
                                        .path = directory,
                                        .max_batch = options->batched ? options->max_batch : 1};
    struct tt_engine_model *sliced;
    struct tt_slices *slices;
    struct tt_error why;
    if (tt_slices_open(directory, &slices, &why))
        return false;
    bool good = slices->manifest->check != NULL;
    struct tt_text bytes;
    tt_text_init(&bytes);
    char digest[TT_DIGEST_BYTES] = "";
    if (good && tt_engine_load(options->runtime, options->engine, &load, &sliced, &why) == TT_OK) {
        const Tutti__SliceCheck *check = slices->manifest->check;
        bool kind_known = check->specimen >= 0 && check->specimen < TT_SYNTHETIC_INPUT_KINDS;
        good = kind_known && check->rows >= 1 && check->length >= 1 &&
               answers(sliced, check->rows, check->length,
                       (enum tt_synthetic_input_kind)check->specimen, &bytes, &why) == TT_OK &&
               tt_digest_bytes(tt_text_string(&bytes), bytes.length, digest, &why) == TT_OK &&
               strcmp(digest, check->outputs_sha256) == 0;
        options->engine->ops->unload(sliced);
    } else {
        good = false;
    }
    tt_text_fini(&bytes);
    tt_slices_close(slices);
    return good;
}

/* Creates the folder and its parents. */
static bool make_folders(const char *path) {
    char at[4096];
    snprintf(at, sizeof(at), "%s", path);
    for (char *slash = at + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(at, 0755) != 0 && errno != EEXIST)
            return false;
        *slash = '/';
    }
    return (mkdir(at, 0755) == 0 || errno == EEXIST) && access(at, W_OK | X_OK) == 0;
}

/* The folder of cuts for repositories that are not writable. */
static bool user_cache(char *out, size_t capacity) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache == '/')
        snprintf(out, capacity, "%s/tutti", cache);
    else if (home && *home == '/')
        snprintf(out, capacity, "%s/.cache/tutti", home);
    else
        return false;
    return true;
}

/* Writes a cut that is not there, or is not valid. */
static enum tt_err write_cut(const struct tt_slicer_options *options, const char *directory,
                             struct tt_error *why) {
    struct tt_slicer *slicer;
    tt_machine_remove(directory);
    enum tt_err err = tt_slicer_new(options, &slicer, why);
    if (err)
        return err;
    err = tt_slicer_write(slicer, directory, why);
    tt_slicer_free(slicer);
    return err;
}

/* No place outlives the process: creates the cut in a private folder. */
static enum tt_err write_temporary(const struct tt_slicer_options *options, const char *home,
                                   const char *name, char *out_directory, size_t capacity,
                                   struct tt_error *why) {
    char private[2000], directory[4096];
    struct tt_error reason;
    int kept = errno;
    if (tt_machine_scratch(private, sizeof(private), &reason))
        return tt_fail(TT_ERR_IO, why,
                       "%s: cannot write the stages of model %s anywhere: %s; and %s", home,
                       options->name, strerror(kept), reason.text);
    snprintf(directory, sizeof(directory), "%s/%s", private, name);
    enum tt_err err = write_cut(options, directory, why);
    if (err)
        tt_machine_remove(private);
    else
        snprintf(out_directory, capacity, "%s", directory);
    return err;
}

void tt_slicer_release(const char *directory, enum tt_slicer_origin origin) {
    char private[4096];
    if (origin != TT_SLICER_TEMPORARY)
        return;
    snprintf(private, sizeof(private), "%s", directory);
    char *slash = strrchr(private, '/');
    tt_assert(slash != NULL);
    tt_assert(slash > private); /* never the root */
    *slash = '\0';
    tt_machine_remove(private);
}

enum tt_err tt_slicer_find(const struct tt_slicer_options *options, const char *home,
                           char *out_directory, size_t capacity, enum tt_slicer_origin *out_origin,
                           struct tt_error *why) {
    char name[64], places[2][2000] = {"", ""}, directory[4096];
    enum tt_err err = folder_name(options, name, sizeof(name), why);
    if (err)
        return err;
    snprintf(places[0], sizeof(places[0]), "%s", home);
    int count = 1 + user_cache(places[1], sizeof(places[1]));
    for (int i = 0; i < count; i++) {
        snprintf(directory, sizeof(directory), "%s/%s", places[i], name);
        if (access(directory, R_OK) == 0 && still_good(options, directory)) {
            tt_stage_folders_used(directory);
            snprintf(out_directory, capacity, "%s", directory);
            *out_origin = TT_SLICER_FOUND;
            return TT_OK;
        }
    }
    int place = 0;
    while (place < count && !make_folders(places[place]))
        place++;
    if (place == count) {
        *out_origin = TT_SLICER_TEMPORARY;
        return write_temporary(options, home, name, out_directory, capacity, why);
    }
    snprintf(directory, sizeof(directory), "%s/%s", places[place], name);
    err = write_cut(options, directory, why);
    if (err)
        return err;
    tt_stage_folders_prune(places[place], name, place == 0 ? TT_STAGE_FOLDERS_MAX : 0);
    snprintf(out_directory, capacity, "%s", directory);
    *out_origin = TT_SLICER_MADE;
    return TT_OK;
}
