#include "lab/repository_profile.h"

#include "model/profile_file.h"
#include "model/repository.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tt_repository_profile_fini(struct tt_repository_profile *self) {
    for (int32_t s = 0; s < self->step_count; s++) {
        if (self->steps)
            tt_profile_free(self->steps[s]);
        if (self->names)
            free(self->names[s]);
    }
    free(self->steps);
    free(self->names);
    tt_profile_free(self->whole);
    *self = (struct tt_repository_profile){0};
}

static enum tt_err check_model(const struct tt_repository_model *model, int32_t max_batch,
                               struct tt_message *why) {
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

/* Takes the file's profiles out of it. */
static enum tt_err take(struct tt_profile_file *file, struct tt_repository_profile *out,
                        struct tt_message *why) {
    struct tt_repository_profile found = {.step_count =
                                              file->step_count > 1 ? file->step_count : 1};
    found.steps = calloc((size_t)found.step_count, sizeof(struct tt_profile *));
    found.names = calloc((size_t)found.step_count, sizeof(char *));
    bool whole = found.steps && found.names;
    for (int32_t s = 0; whole && s < found.step_count; s++) {
        bool staged = file->step_count > 1;
        found.names[s] = strdup(staged ? file->message->step[s]->name : "whole");
        whole = found.names[s] != NULL;
        if (staged) {
            found.steps[s] = file->steps[s];
            file->steps[s] = NULL;
        }
    }
    if (!whole) {
        tt_repository_profile_fini(&found);
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    found.whole = file->whole;
    file->whole = NULL;
    *out = found;
    return TT_OK;
}

static enum tt_err read_profile(const struct tt_repository_model *model, int32_t max_batch,
                                struct tt_repository_profile *out, struct tt_message *why) {
    const char *named = model->settings->profile;
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
                      "%s says nothing of the stages that %s cuts the model into; run: tutti "
                      "profile %s",
                      path, model->settings->file_name, model->directory);
    if (!err)
        err = take(file, out, why);
    tt_profile_file_close(file);
    return err;
}

enum tt_err tt_repository_profile_read(const char *repository, const char *model, int32_t max_batch,
                                       struct tt_repository_profile *out_profile,
                                       struct tt_message *why) {
    struct tt_repository *found;
    enum tt_err err =
        tt_repository_scan_model(repository, model, NULL, TT_MODEL_DEFAULT_MAX_BATCH, &found, why);
    if (err)
        return err;
    const struct tt_repository_model *entry = tt_repository_find(found, model);
    if (!entry)
        err = tt_fail(TT_ERR_NOT_FOUND, why, "%s has no model '%s'", repository, model);
    if (!err)
        err = check_model(entry, max_batch, why);
    if (!err)
        err = read_profile(entry, max_batch > 0 ? max_batch : entry->config->signature.max_batch,
                           out_profile, why);
    tt_repository_free(found);
    return err;
}
