#include "profile/repository_profile.h"

#include "engine/engine_kind.h"
#include "model/repository/repository.h"
#include "profile/cell_profile.h"
#include "profile/profile_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tt_repository_profile_fini(struct tt_repository_profile *self) {
    bool shared = self->profiles && self->whole == self->profiles[0];
    for (int32_t s = 0; s < self->step_count; s++) {
        if (self->profiles)
            tt_profile_free(self->profiles[s]);
        if (self->steps)
            free((char *)self->steps[s].name);
    }
    if (!shared)
        tt_profile_free(self->whole);
    free(self->steps);
    free(self->profiles);
    *self = (struct tt_repository_profile){0};
}

static enum tt_err check_model(const struct tt_repository_model *model, int32_t max_batch,
                               struct tt_error *why) {
    if (!tt_repository_model_ok(model))
        return tt_fail(TT_ERR_INVALID, why, "model '%s' cannot serve: %s", model->name,
                       model->version_count ? tt_findings_first_problem(&model->findings)
                                            : "it has no version");
    int32_t most = model->config->signature.max_batch;
    if (max_batch > most)
        return tt_fail(TT_ERR_INVALID, why,
                       "max_batch is %d, and model '%s' takes at most %d rows (%s)", max_batch,
                       model->name, most, model->config->file_name);
    return TT_OK;
}

/* Whether the file has the steps: of cells one per type, even if there is only one type. */
static bool has_steps(const struct tt_profile_file *file, const struct tt_cells *cells) {
    return cells ? file->step_count == cells->type_count : file->step_count > 1;
}

/* Moves the file's profiles to `out`. `cells`: those of the steps, or NULL. */
static enum tt_err take(struct tt_profile_file *file, const struct tt_cells *cells,
                        struct tt_repository_profile *out, struct tt_error *why) {
    bool staged = has_steps(file, cells);
    *out = (struct tt_repository_profile){.step_count = staged ? file->step_count : 1,
                                          .is_tree = cells && cells->kind == TT_UNFOLD_TREE};
    out->steps = calloc((size_t)out->step_count, sizeof(*out->steps));
    out->profiles = calloc((size_t)out->step_count, sizeof(*out->profiles));
    if (!out->steps || !out->profiles)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    struct tt_profile **from = staged ? file->steps : &file->whole;
    for (int32_t s = 0; s < out->step_count; s++) {
        struct tt_step *step = &out->steps[s];
        tt_assert(from[s] != NULL); /* each is taken once */
        out->profiles[s] = from[s];
        from[s] = NULL;
        step->name = strdup(staged ? file->message->step[s]->name : "whole");
        if (!step->name)
            return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
        if (cells && !out->is_tree)
            step->kind = s > 0 ? TT_STEP_DECODER : TT_STEP_ENCODER;
        if (cells)
            step->min_rows = cells->types[s].min_batch;
    }
    if (!cells) {
        out->whole = staged ? file->whole : out->profiles[0];
        file->whole = NULL;
    }
    return cells ? tt_cell_profile_narrow(cells, out->profiles, why) : TT_OK;
}

/* The cells of the newest version; NULL: it is one graph. */
static const struct tt_cells *cells_of(const struct tt_repository_model *model) {
    return model->version_count ? model->versions[model->version_count - 1].cells : NULL;
}

static enum tt_err check_cells(const struct tt_repository_model *model, int32_t max_batch,
                               const struct tt_profile_file *file, const char *path,
                               struct tt_error *why) {
    const struct tt_cells *cells = cells_of(model);
    if (!cells)
        return TT_OK;
    if (max_batch > 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "max_batch is %d, but model '%s' is of cells, and %s says how many of each "
                       "type a batch takes; leave it out",
                       max_batch, model->name, model->settings->file_name);
    if (cells->kind == TT_UNFOLD_PLUGIN)
        return tt_fail(TT_ERR_INVALID, why,
                       "model '%s' unfolds requests as its plug-in says; of models of cells "
                       "experiments know chains, SEQ2SEQ and trees",
                       model->name);
    if (cells->kind == TT_UNFOLD_TREE && cells->child_count != 2)
        return tt_fail(TT_ERR_INVALID, why,
                       "nodes of model '%s' have %d children; experiments draw binary trees",
                       model->name, cells->child_count);
    if (!has_steps(file, cells))
        return tt_fail(TT_ERR_INVALID, why,
                       "%s has %d steps, and model '%s' has %d types of cells; run: tutti profile "
                       "%s",
                       path, file->step_count, model->name, cells->type_count, model->directory);
    return TT_OK;
}

static enum tt_err read_profile(const struct tt_repository_model *model, int32_t requested,
                                struct tt_repository_profile *out, struct tt_error *why) {
    const char *named = model->settings->profile;
    int32_t max_batch = requested > 0 ? requested : model->config->signature.max_batch;
    struct tt_repository_profile found = {0};
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", model->directory, *named ? named : "profile.pbtxt");
    struct tt_profile_file *file;
    enum tt_err err = tt_profile_file_open(path, max_batch, &file, why);
    if (err == TT_ERR_NOT_FOUND)
        return tt_fail(err, why, "model '%s' has no profile (%s); run: tutti profile %s",
                       model->name, path, model->directory);
    if (err)
        return err;
    if (model->settings->stages && file->step_count == 0)
        err = tt_fail(TT_ERR_INVALID, why,
                      "%s has no times of the stages that %s cuts the model into; run: tutti "
                      "profile %s",
                      path, model->settings->file_name, model->directory);
    if (!err)
        err = check_cells(model, requested, file, path, why);
    if (!err)
        err = take(file, cells_of(model), &found, why);
    for (int32_t s = 0; !err && s < found.step_count; s++)
        found.steps[s].profile = found.profiles[s];
    tt_assert(err || found.step_count >= 1);
    tt_assert(err || !found.whole == (cells_of(model) != NULL));
    if (err)
        tt_repository_profile_fini(&found);
    else
        *out = found;
    tt_profile_file_close(file);
    return err;
}

enum tt_err tt_repository_profile_read(const char *repository, const char *model, int32_t max_batch,
                                       struct tt_repository_profile *out_profile,
                                       struct tt_error *why) {
    struct tt_repository *found;
    enum tt_err err = tt_repository_scan_model(repository, model, tt_engines(), NULL,
                                               TT_MODEL_DEFAULT_MAX_BATCH, &found, why);
    if (err)
        return err;
    const struct tt_repository_model *entry = tt_repository_find(found, model);
    if (!entry)
        err = tt_fail(TT_ERR_NOT_FOUND, why, "%s has no model '%s'", repository, model);
    if (!err)
        err = check_model(entry, max_batch, why);
    if (!err)
        err = read_profile(entry, max_batch, out_profile, why);
    tt_repository_free(found);
    return err;
}
