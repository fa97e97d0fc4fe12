#include "profile/find_profile.h"

#include "base/instant.h"
#include "base/processors.h"
#include "model/text/digest.h"
#include "profile/calibrate.h"
#include "profile/cell_profile.h"
#include "profile/machine.h"
#include "profile/profile_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_steps(struct tt_profile **take_steps, int32_t count) {
    for (int32_t s = 0; take_steps && s < count; s++)
        tt_profile_free(take_steps[s]);
    free(take_steps);
}

/* 0: not known, since the model is not loaded. */
static int32_t step_count(const struct tt_find_profile_options *options) {
    if (options->cells)
        return options->cells->type_count;
    if (!options->loaded)
        return options->model->settings->stages || options->model->config->engine->emulates ? 0 : 1;
    return options->loaded->engine->ops->step_count(options->loaded);
}

static int32_t max_batch(const struct tt_find_profile_options *options) {
    if (!options->loaded)
        return options->model->config->signature.max_batch;
    return options->loaded->engine->ops->signature(options->loaded)->max_batch;
}

static void set_source(const struct tt_find_profile_options *options, const char *source) {
    if (options->out_source)
        *options->out_source = source;
}

/* ---- from the file ---- */

/* INVALID; UNSUPPORTED: only the device is another one. */
static enum tt_err check_subject(const struct tt_find_profile_options *options,
                                 const struct tt_profile_file *file, struct tt_error *why) {
    if (!*file->message->model_sha256)
        return TT_OK; /* written by hand: valid for every subject */
    char digest[TT_DIGEST_BYTES], device[300];
    enum tt_err err = options->cells ? tt_cell_profile_digest(options->cells, digest, why)
                                     : tt_digest_file(options->path, digest, why);
    if (err)
        return err;
    struct tt_profile_subject subject = {
        .model_sha256 = digest,
        .device = options->device ? options->device : tt_machine_device(device, sizeof(device)),
        .stages = options->loaded ? options->stages : file->message->stages};
    err = tt_profile_file_check(file->message, &subject, why);
    subject.device = NULL;
    subject.stages = file->message->stages;
    struct tt_error ignored;
    bool is_elsewhere = err && tt_profile_file_check(file->message, &subject, &ignored) == TT_OK;
    if (is_elsewhere && options->any_device)
        return TT_OK;
    return is_elsewhere ? TT_ERR_UNSUPPORTED : err;
}

/* The file was measured of another subject, as `why` says: NOT_FOUND if it may be ignored, else
 * INVALID. */
static enum tt_err refuse_stale(const struct tt_find_profile_options *options, const char *path,
                                bool is_elsewhere, struct tt_error *why) {
    struct tt_error reason = *why;
    if (options->measure_stale || (is_elsewhere && !options->strict_profile)) {
        tt_fail(TT_OK, why, "%s is stale: %s; measuring now", path, reason.text);
        options->say(options->say_context, TT_LOG_WARNING, why->text);
        return TT_ERR_NOT_FOUND;
    }
    return tt_fail(TT_ERR_INVALID, why,
                   "%s is stale: %s; run `tutti profile %s`, or serve with%s %s", path, reason.text,
                   options->model->directory, is_elsewhere ? "out" : "",
                   is_elsewhere ? "--strict-profile" : "--measure-stale");
}

static void file_path(const struct tt_repository_model *model, char *path, size_t capacity) {
    const char *named = model->settings->profile;
    snprintf(path, capacity, "%s/%s", model->directory, *named ? named : "profile.pbtxt");
}

enum tt_err tt_find_profile_open(const struct tt_repository_model *model, int32_t max_rows,
                                 struct tt_profile_file **out_file, struct tt_error *why) {
    char path[4096];
    file_path(model, path, sizeof(path));
    return tt_profile_file_open(path, max_rows, out_file, why);
}

enum tt_err tt_find_profile_step_count(const struct tt_repository_model *model, int32_t *out_count,
                                       struct tt_error *why) {
    struct tt_profile_file *file;
    *out_count = 1;
    enum tt_err err = tt_find_profile_open(model, 0, &file, why);
    if (err)
        return err == TT_ERR_NOT_FOUND ? TT_OK : err; /* tt_find_profile says what is missing */
    if (file->step_count)
        *out_count = file->step_count;
    tt_profile_file_close(file);
    return TT_OK;
}

/* A batch's share of another number of processors is another one. */
static void check_demand(const struct tt_find_profile_options *options, const char *path,
                         struct tt_profile_file *file) {
    int32_t processors = tt_processors_usable();
    if (!tt_profile_file_demand_is_elsewhere(file, processors))
        return;
    tt_profile_file_forget_demand(file);
    struct tt_error text;
    tt_fail(TT_OK, &text,
            "%s: demands were measured with %d processors, and here are %d: every batch counts as "
            "the whole device; run `tutti profile %s` here",
            path, file->message->processors, processors, options->model->directory);
    options->say(options->say_context, TT_LOG_WARNING, text.text);
}

/* NOT_FOUND: there is no valid file. */
static enum tt_err read_file(const struct tt_find_profile_options *options,
                             struct tt_profile **out_whole, struct tt_profile ***out_steps,
                             struct tt_error *why) {
    const char *named = options->model->settings->profile;
    char path[4096];
    file_path(options->model, path, sizeof(path));
    struct tt_profile_file *file;
    enum tt_err err = tt_profile_file_open(path, max_batch(options), &file, why);
    if (err)
        return err == TT_ERR_NOT_FOUND && *named ? TT_ERR_INVALID : err;
    int32_t steps = step_count(options);
    err = check_subject(options, file, why);
    if (!err && file->step_count && steps && file->step_count != steps)
        err = tt_fail(TT_ERR_INVALID, why, "it has %d steps, and the model has %d",
                      file->step_count, steps);
    if (!err && !file->step_count && steps > 1 && options->decides)
        err = tt_fail(
            TT_ERR_INVALID, why,
            "it says nothing of the model's %d stages, and its policy decides by their times",
            steps);
    if (err) {
        tt_profile_file_close(file);
        bool is_elsewhere = err == TT_ERR_UNSUPPORTED;
        return is_elsewhere || err == TT_ERR_INVALID
                   ? refuse_stale(options, path, is_elsewhere, why)
                   : err;
    }
    if (!options->loaded) {
        tt_profile_file_close(file);
        return TT_OK;
    }
    check_demand(options, path, file);
    set_source(options, "file");
    *out_whole = file->whole;
    *out_steps = file->step_count > 1 || (options->cells && file->step_count) ? file->steps : NULL;
    file->whole = NULL;
    if (*out_steps) {
        file->steps = NULL;
        file->step_count = 0;
    }
    tt_profile_file_close(file);
    return TT_OK;
}

/* ---- measuring ---- */

static const struct tt_calibration_point *first_of_step(const struct tt_calibration_point *points,
                                                        int32_t step) {
    while (points->step != step)
        points++;
    return points;
}

/* Adds points of another length: `at_one` was measured there with batches of one. Larger batches
 * take more by the same factor as at the length of the first `count` points. */
static enum tt_err add_length(struct tt_calibration_point **points, int32_t *count,
                              const struct tt_calibration_point *at_one, int32_t usual_count,
                              struct tt_error *why) {
    size_t needed = (size_t)*count + (size_t)usual_count;
    struct tt_calibration_point *grown = realloc(*points, needed * sizeof(*grown));
    if (!grown)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a profile");
    for (int32_t i = 0; i < usual_count; i++) {
        const struct tt_calibration_point *first = first_of_step(grown, grown[i].step);
        const struct tt_calibration_point *there = first_of_step(at_one, grown[i].step);
        int64_t one_ns = tt_instant_max(first->median_ns, 1);
        __int128 ns = (__int128)there->median_ns * grown[i].median_ns / one_ns;
        grown[*count + i] = grown[i];
        grown[*count + i].length = there->length;
        grown[*count + i].median_ns = ns < INT64_MAX / 8 ? (int64_t)ns : INT64_MAX / 8;
    }
    *points = grown;
    *count += usual_count;
    return TT_OK;
}

/* Of a graph. Inputs of any length are measured at the usual one, and with batches of one at two
 * others. A model that refuses those takes as long as at the usual one, as far as is known. */
static enum tt_err measure_graph(const struct tt_find_profile_options *options,
                                 const struct tt_calibrate_options *calibrate,
                                 struct tt_calibration_point **out_points, int32_t *out_count,
                                 struct tt_error *why) {
    static const int32_t others[] = {1, 128}, one = 1;
    struct tt_engine_model *loaded = options->loaded;
    struct tt_calibration_point *points;
    int32_t count, usual_count;
    enum tt_err err = tt_calibrate(loaded, calibrate, &points, &usual_count, why);
    if (err)
        return err;
    count = usual_count;
    bool any = !calibrate->lengths && tt_signature_varies(loaded->engine->ops->signature(loaded));
    for (size_t i = 0; any && !err && i < TT_COUNT(others); i++) {
        struct tt_calibrate_options at_one = *calibrate;
        struct tt_calibration_point *more;
        struct tt_error ignored;
        int32_t more_count;
        at_one.batches = &one;
        at_one.lengths = &others[i];
        at_one.batch_count = at_one.length_count = 1;
        if (tt_calibrate(loaded, &at_one, &more, &more_count, &ignored))
            continue;
        err = add_length(&points, &count, more, usual_count, why);
        free(more);
    }
    if (err) {
        free(points);
        return err;
    }
    *out_points = points;
    *out_count = count;
    return TT_OK;
}

static enum tt_err measure(const struct tt_find_profile_options *options,
                           struct tt_profile **out_whole, struct tt_profile ***out_steps,
                           struct tt_error *why) {
    const struct tt_model_settings *settings = options->model->settings;
    set_source(options, "measured");
    int32_t largest = max_batch(options), steps = step_count(options);
    struct tt_calibrate_options calibrate = {.max_batch = largest,
                                             .lengths =
                                                 settings->class_count ? settings->classes : NULL,
                                             .length_count = settings->class_count,
                                             .runs = 5,
                                             .least_ns = 5 * TT_MS,
                                             .max_ns = 100 * TT_MS,
                                             .by_step = true};
    struct tt_calibration_point *points;
    int32_t count;
    enum tt_err err = options->cells ? tt_cell_profile_measure(options->loaded, options->cells,
                                                               &calibrate, &points, &count, why)
                                     : measure_graph(options, &calibrate, &points, &count, why);
    if (err)
        return err;
    struct tt_profile *whole = NULL;
    struct tt_profile **found = NULL;
    if (!options->cells)
        err =
            tt_profile_from_calibration(points, count, TT_CALIBRATION_WHOLE, largest, &whole, why);
    if (!err && (steps > 1 || options->cells)) {
        found = calloc((size_t)steps, sizeof(struct tt_profile *));
        err = found ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    for (int32_t s = 0; !err && found && s < steps; s++)
        err = tt_profile_from_calibration(points, count, s, largest, &found[s], why);
    free(points);
    if (err) {
        tt_profile_free(whole);
        free_steps(found, steps);
        return err;
    }
    *out_whole = whole;
    *out_steps = found;
    return TT_OK;
}

/* `what` stands before "profile.pbtxt". */
static enum tt_err refuse_missing(const struct tt_find_profile_options *options, const char *what,
                                  struct tt_error *why) {
    if (options->any_device)
        return tt_fail(TT_ERR_INVALID, why,
                       "%s: %s profile.pbtxt, and nothing can be measured here; run "
                       "`tutti profile %s` on a machine that runs the model",
                       options->model->directory, what, options->model->directory);
    return tt_fail(TT_ERR_INVALID, why,
                   "%s: an %s model takes as long as its profile says, and there is none; write "
                   "profile.pbtxt, such as: linear { alpha_ms: 0.1 beta_ms: 2 }",
                   options->model->directory, options->model->config->message->backend);
}

/* For cells: batches are limited per type, and the whole follows from the steps. */
static enum tt_err find_cells(const struct tt_find_profile_options *options,
                              struct tt_profile **out_whole, struct tt_profile ***out_steps,
                              struct tt_error *why) {
    struct tt_profile *whole = NULL, **steps = NULL;
    enum tt_err err = read_file(options, &whole, &steps, why);
    tt_profile_free(whole); /* a file without steps says nothing of cells */
    whole = NULL;
    if (options->any_device && (err == TT_ERR_NOT_FOUND || (!err && !steps)))
        return refuse_missing(options, err ? "there is no" : "no step, one per type of cell, is in",
                              why);
    if (err == TT_ERR_NOT_FOUND || (!err && !steps))
        err = measure(options, &whole, &steps, why);
    tt_assert(!whole);
    if (err)
        return err;
    err = tt_cell_profile_narrow(options->cells, steps, why);
    if (!err)
        err = tt_cell_profile_whole(options->cells, steps, &whole, why);
    if (err) {
        free_steps(steps, options->cells->type_count);
        return err;
    }
    *out_whole = whole;
    *out_steps = steps;
    return TT_OK;
}

static enum tt_err find_graph(const struct tt_find_profile_options *options,
                              struct tt_profile **out_whole, struct tt_profile ***out_steps,
                              struct tt_error *why) {
    enum tt_err err = read_file(options, out_whole, out_steps, why);
    if (err != TT_ERR_NOT_FOUND)
        return err;
    *out_steps = NULL;
    if (options->needs_profile)
        return refuse_missing(options, "there is no", why);
    if (options->decides || options->model->settings->slo_ns != 0)
        return measure(options, out_whole, out_steps, why);
    set_source(options, "none");
    return tt_profile_new_linear(0, 1, max_batch(options), out_whole, why);
}

static enum tt_err interpolate(struct tt_profile **profile, struct tt_error *why) {
    struct tt_profile *dense;
    enum tt_err err = tt_profile_new_between(*profile, &dense, why);
    if (err)
        return err;
    tt_profile_free(*profile);
    *profile = dense;
    return TT_OK;
}

/* A real device takes as long as the inputs are. An emulated one has the lengths of its profile,
 * and so have inputs that are filled up to one. */
static enum tt_err interpolate_lengths(const struct tt_find_profile_options *options,
                                       struct tt_profile **whole, struct tt_profile **steps,
                                       struct tt_error *why) {
    const struct tt_model_settings *settings = options->model->settings;
    bool is_filled = settings->pad && settings->class_count > 0;
    if (options->model->config->engine->needs_profile || is_filled || options->cells)
        return TT_OK;
    enum tt_err err = interpolate(whole, why);
    for (int32_t s = 0; !err && steps && s < step_count(options); s++)
        err = interpolate(&steps[s], why);
    return err;
}

enum tt_err tt_find_profile(const struct tt_find_profile_options *options,
                            struct tt_profile **out_whole, struct tt_profile ***out_steps,
                            struct tt_error *why) {
    struct tt_profile *whole = NULL, **steps = NULL;
    tt_assert(options->loaded != NULL);
    enum tt_err err = options->cells ? find_cells(options, &whole, &steps, why)
                                     : find_graph(options, &whole, &steps, why);
    if (err)
        return err;
    err = interpolate_lengths(options, &whole, steps, why);
    if (err) {
        tt_profile_free(whole);
        free_steps(steps, step_count(options));
        return err;
    }
    tt_profile_check(whole);
    tt_assert(steps || !options->cells);
    for (int32_t s = 0; steps && s < step_count(options); s++)
        tt_profile_check(steps[s]);
    *out_whole = whole;
    *out_steps = steps;
    return TT_OK;
}

enum tt_err tt_find_profile_check(const struct tt_find_profile_options *options,
                                  struct tt_error *why) {
    struct tt_profile *whole, **steps; /* not set, since no model is loaded */
    tt_assert(!options->loaded);
    enum tt_err err = read_file(options, &whole, &steps, why);
    if (err == TT_ERR_NOT_FOUND && options->needs_profile)
        return refuse_missing(options, "there is no", why);
    return err == TT_ERR_NOT_FOUND ? TT_OK : err;
}
