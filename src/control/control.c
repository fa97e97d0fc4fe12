#include "control/control.h"

#include "base/clock.h"
#include "base/instant.h"
#include "base/threads/eventcount.h"
#include "base/threads/flag.h"
#include "base/threads/lock.h"
#include "control/auto_advisor.h"
#include "control/ensemble_links.h"
#include "control/load_trial.h"
#include "control/model_entry.h"
#include "control/override_files.h"
#include "engine/engine_kind.h"
#include "policy/policy.h"
#include "serve/domain.h"
#include "serve/limits.h"
#include "serve/model_command.h"
#include "serve/served_model_state.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RETRY_NS = 100 * 1000 * 1000, /* after a catalogue could not be allocated */
    DEFAULT_LOAD_MS = 600000,     /* of a trial load, without limits */
    REMEMBERED_MODELS = 100, /* that clients brought and that do not serve: reasons and counters */
    IN_TWO = 1,              /* fingerprint of a model that two repositories have */
};

struct tt_control {
    struct tt_control_options options;
    struct tt_serving *serving;
    struct tt_loader *loader;
    struct tt_model_entry *entries;
    struct tt_served_model *retiring; /* list by `next`: in the old catalogue until the next is
                                         published; then we drop our reference */
    bool publish_failed;
    struct tt_auto_advisor *advisor; /* NULL: no model has had policy auto */
    int32_t ready_count, model_count;
    int64_t load_count;
    int32_t leaving_count; /* retired versions that are not unloaded yet */
    /* Written by other threads: */
    struct tt_lock lock;
    struct tt_model_command *commands; /* newest first */
    struct tt_served_model *unused;    /* list by `next`: models without references */
    struct tt_served_model *failed;    /* list by `next_failed`, with a reference each */
    struct tt_auto_advice *advices;    /* newest first */
    struct tt_eventcount eventcount;
    struct tt_flag stopping, ended; /* ended: by the thread, as its last access */
    struct tt_eventcount closer;    /* tt_control_stop() waits here for `ended` */
    pthread_t thread;
    bool started;
};

static void say(struct tt_control *self, enum tt_log_level level, const char *format, ...)
    TT_PRINTF(3, 4);
static void say(struct tt_control *self, enum tt_log_level level, const char *format, ...) {
    char line[1400];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    self->options.loader.say(self->options.loader.say_context, level, line);
}

/* ---- models that leave ---- */

static void on_unused(void *context, struct tt_served_model *model) {
    struct tt_control *self = context;
    tt_lock_take(&self->lock);
    tt_assert(!model->next); /* in no other list */
    model->next = self->unused;
    self->unused = model;
    tt_lock_give(&self->lock);
    tt_eventcount_notify(&self->eventcount);
}

/* Moves the version's model to `retiring`: it serves until the next catalogue, then leaves when its
 * requests are answered. */
static void retire(struct tt_control *self, struct tt_version_entry *version) {
    struct tt_served_model *model = version->model;
    tt_assert(model != NULL);
    tt_assert(!model->next);
    tt_assert(model->unused == on_unused);
    version->model = NULL;
    version->leaving_count++;
    self->leaving_count++;
    model->next = self->retiring;
    self->retiring = model;
}

/* No references are left. */
static void free_model(struct tt_control *self, struct tt_served_model *take_model) {
    if (take_model->ensemble)
        tt_served_model_free(take_model);
    else
        tt_loader_unload(self->loader, take_model);
}

static void link_stale(struct tt_control *self);

/* Publishes a catalogue of the entries. If there is no memory for it, the old catalogue stays. */
static void publish(struct tt_control *self) {
    link_stale(self);
    struct tt_catalogue *catalogue = tt_model_entries_catalogue(self->entries);
    tt_model_entries_check(self->entries, self->leaving_count);
    self->publish_failed = catalogue == NULL;
    if (!catalogue)
        return;
    tt_serving_publish(self->serving, catalogue);
    for (struct tt_served_model *model = self->retiring, *next; model; model = next) {
        next = model->next;
        model->next = NULL;
        if (!model->ensemble)
            tt_serving_drain(self->serving, model);
        tt_served_model_unref(model);
    }
    self->retiring = NULL;
}

static struct tt_served_model *take_unused(struct tt_control *self) {
    tt_lock_take(&self->lock);
    struct tt_served_model *unused = self->unused;
    self->unused = NULL;
    tt_lock_give(&self->lock);
    return unused;
}

/* Frees the models that have no references left. */
static void reap(struct tt_control *self) {
    struct tt_served_model *unused = take_unused(self);
    bool changed = false;
    for (struct tt_served_model *model = unused, *next; model; model = next) {
        next = model->next;
        struct tt_model_entry *entry = tt_model_entry_get(&self->entries, model->name);
        struct tt_version_entry *version = tt_version_entry_get(entry, model->version);
        tt_assert(version->leaving_count > 0);
        tt_assert(version->model != model);
        say(self, TT_LOG_INFO, "model %s version %s: %s", model->name, model->version,
            version->model ? "its previous load is unloaded" : "unloaded");
        free_model(self, model);
        self->leaving_count--;
        if (--version->leaving_count == 0 && version->state == TT_MODEL_UNLOADING) {
            tt_version_entry_set(version, TT_MODEL_UNAVAILABLE, "unloaded");
            changed = true;
        }
    }
    if (changed)
        publish(self);
    tt_model_entries_check(self->entries, self->leaving_count);
}

/* ---- models that fail ---- */

/* In a turn. */
static void on_failed(void *context, struct tt_served_model *model) {
    struct tt_control *self = context;
    tt_lock_take(&self->lock);
    model->next_failed = self->failed;
    self->failed = tt_served_model_ref(model);
    tt_lock_give(&self->lock);
    tt_eventcount_notify(&self->eventcount);
}

/* The version stops serving at once. If the engine never returns the run that took too long, the
 * model keeps its memory, and its version's leaving_count, for ever. */
static void fail_version(struct tt_control *self, struct tt_served_model *model) {
    struct tt_model_entry *entry = tt_model_entry_get(&self->entries, model->name);
    struct tt_version_entry *version = tt_version_entry_get(entry, model->version);
    tt_assert(version != NULL); /* it was loaded */
    say(self, TT_LOG_ERROR, "model %s version %s: %s", model->name, model->version, model->failure);
    if (version->model != model)
        return; /* it leaves already */
    retire(self, version);
    tt_version_entry_set(version, TT_MODEL_UNAVAILABLE, model->failure);
    publish(self);
}

static void take_failed(struct tt_control *self) {
    tt_lock_take(&self->lock);
    struct tt_served_model *model = self->failed;
    self->failed = NULL;
    tt_lock_give(&self->lock);
    for (struct tt_served_model *next; model; model = next) {
        next = model->next_failed;
        model->next_failed = NULL;
        fail_version(self, model);
        tt_served_model_unref(model);
    }
}

/* ---- policy auto ---- */

static void on_advice(void *context, struct tt_auto_advice *advice) {
    struct tt_control *self = context;
    tt_lock_take(&self->lock);
    advice->next = self->advices;
    self->advices = advice;
    tt_lock_give(&self->lock);
    tt_eventcount_notify(&self->eventcount);
}

/* After a load: the first model with policy auto starts the advisor. Without it the model serves
 * under its default policy. */
static void tell_advisor(struct tt_control *self, const struct tt_served_model *model) {
    struct tt_auto_advisor_options options = {.serving = self->serving,
                                              .advise = on_advice,
                                              .advise_context = self,
                                              .say = self->options.loader.say,
                                              .say_context = self->options.loader.say_context};
    struct tt_error why;
    if (!model->choice)
        return;
    if (self->advisor)
        tt_auto_advisor_notify(self->advisor);
    else if (tt_auto_advisor_open(&options, &self->advisor, &why))
        say(self, TT_LOG_WARNING, "model %s keeps its policy: %s", model->name, why.text);
}

/* ---- loading ---- */

/* The versions of one load, before they are published. */
struct batch {
    int32_t count;
    struct tt_served_model *models[TT_REPOSITORY_MAX_VERSIONS];
};

static void discard(struct tt_control *self, struct batch *batch) {
    for (int32_t i = 0; i < batch->count; i++)
        free_model(self, batch->models[i]);
    batch->count = 0;
}

/* Gives the reason to each version that was announced. */
static void fail_loading(struct tt_model_entry *entry, const char *reason) {
    for (struct tt_version_entry *version = entry->versions; version; version = version->next)
        if (version->state == TT_MODEL_LOADING)
            tt_version_entry_set(version, TT_MODEL_UNAVAILABLE, reason);
}

static enum tt_err load_versions(struct tt_control *self, struct tt_model_entry *entry,
                                 const struct tt_repository_model *model, struct batch *batch,
                                 char *out_failed, size_t capacity, struct tt_error *why) {
    for (int32_t i = 0; i < model->version_count; i++) {
        snprintf(out_failed, capacity, "%lld", (long long)model->versions[i].number);
        struct tt_version_entry *version = tt_version_entry_get(entry, out_failed);
        enum tt_err err = version ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
        if (!err && model->config->ensemble)
            err = tt_ensemble_links_make(self->entries, model, i, version->stats, &batch->models[i],
                                         why);
        else if (!err)
            err = tt_loader_load(self->loader, model, i, version->stats,
                                 entry->chosen.policy ? &entry->chosen : NULL, &batch->models[i],
                                 why);
        if (err)
            return err;
        tt_assert(strcmp(batch->models[i]->version, out_failed) == 0);
        tt_assert(batch->models[i] != version->model);
        batch->count = i + 1;
        if (!version->stats)
            version->stats = tt_model_stats_ref(batch->models[i]->stats);
    }
    return TT_OK;
}

/* Replaces the versions that serve by those of the batch. */
static void take_over(struct tt_control *self, struct tt_model_entry *entry, struct batch *batch) {
    int32_t taken_count = 0;
    for (struct tt_version_entry *version = entry->versions; version; version = version->next) {
        struct tt_served_model *successor = NULL;
        for (int32_t i = 0; i < batch->count; i++)
            if (strcmp(batch->models[i]->version, version->number) == 0)
                successor = batch->models[i];
        if (version->model)
            retire(self, version);
        version->model = successor;
        if (successor) {
            tt_assert(!successor->unused); /* it had no owner but the batch */
            taken_count++;
            version->load_count++;
            successor->unused = on_unused;
            successor->unused_context = self;
            tell_advisor(self, successor);
            tt_version_entry_set(version, TT_MODEL_READY, "");
        } else if (version->leaving_count > 0 && version->state != TT_MODEL_UNAVAILABLE) {
            tt_version_entry_set(version, TT_MODEL_UNLOADING, "");
        } else {
            tt_version_entry_set(version, TT_MODEL_UNAVAILABLE, "unloaded");
        }
    }
    tt_assert(taken_count == batch->count); /* each has one owner now */
}

static void announce(struct tt_control *self, struct tt_model_entry *entry,
                     const struct tt_repository_model *model) {
    char number[32];
    for (int32_t i = 0; i < model->version_count; i++) {
        snprintf(number, sizeof(number), "%lld", (long long)model->versions[i].number);
        struct tt_version_entry *version = tt_version_entry_get(entry, number);
        if (version && !version->model)
            tt_version_entry_set(version, TT_MODEL_LOADING, "");
    }
    publish(self);
}

/* Ensembles follow their parts. */
static void link_stale(struct tt_control *self) {
    struct tt_model_entry *entry;
    while ((entry = tt_ensemble_links_stale(self->entries))) {
        const struct tt_repository_model *model = &entry->ensemble->models[0];
        struct batch batch = {0};
        struct tt_error why;
        char failed[32];
        bool served = tt_model_entry_serves(entry);
        entry->links = tt_ensemble_links_stamp(self->entries, model);
        enum tt_err err = load_versions(self, entry, model, &batch, failed, sizeof(failed), &why);
        if (err)
            discard(self, &batch);
        take_over(self, entry, &batch);
        if (err)
            tt_model_entry_fail(entry, model, NULL, why.text);
        if (err && served)
            say(self, TT_LOG_WARNING, "model %s does not serve any more: %s", model->name,
                why.text);
        else if (!err)
            say(self, TT_LOG_INFO, "model %s: its steps have the models that serve now",
                model->name);
    }
}

/* Where a model was read. */
struct load_source {
    const char *home;   /* the repository */
    const char *config; /* instead of its config.pbtxt; NULL: as the file says */
};

/* Loads the model in another process first, if it is to be; not when only its policy changes, and
 * not again without batching (`source` NULL). `out_failed`: the version at fault. */
static enum tt_err try_load(struct tt_control *self, const struct tt_model_entry *entry,
                            const struct tt_repository_model *model,
                            const struct load_source *source, char *out_failed, size_t capacity,
                            struct tt_error *why) {
    const struct tt_loader_options *loader = &self->options.loader;
    if (!self->options.trial_program || loader->engine || !source || entry->chosen.policy ||
        !tt_repository_model_ok(model) || !model->config->engine->needs_file)
        return TT_OK;
    const struct tt_load_trial trial = {.program = self->options.trial_program,
                                        .onnxruntime = loader->onnxruntime,
                                        .strict_profile = loader->strict_profile,
                                        .measure_stale = loader->measure_stale,
                                        .strict_gpu = loader->strict_gpu,
                                        .max_bytes = loader->max_model_bytes,
                                        .max_ms = loader->max_load_ms,
                                        .stop = &self->stopping};
    return tt_load_trial_run(&trial, source->home, model->name, source->config, out_failed,
                             capacity, why);
}

/* Loads a model that was read. `out_rows_depend`: true if it failed, and nothing was noted, since
 * the default batch size gives wrong answers; NULL: that is a failure like others. */
static enum tt_err load_read(struct tt_control *self, struct tt_model_entry *entry,
                             const struct tt_repository_model *model,
                             const struct load_source *source, bool *out_rows_depend,
                             struct tt_error *why) {
    struct batch batch = {0};
    char failed[32] = "";
    announce(self, entry, model);
    enum tt_err err = try_load(self, entry, model, source, failed, sizeof(failed), why);
    bool is_tried = !err;
    if (!err)
        err = tt_repository_model_ok(model)
                  ? load_versions(self, entry, model, &batch, failed, sizeof(failed), why)
                  : tt_fail(TT_ERR_INVALID, why, "%s", tt_findings_first_problem(&model->findings));
    if (err && is_tried && out_rows_depend && *failed && model->config->has_default_max_batch &&
        tt_loader_rows_depend(self->loader)) {
        discard(self, &batch);
        *out_rows_depend = true;
        return err;
    }
    for (int32_t i = 0; i < model->findings.count; i++)
        if (model->findings.items[i].kind == TT_FINDING_REMARK)
            say(self, TT_LOG_WARNING, "model %s: %s", entry->name,
                model->findings.items[i].sentence);
    if (err) {
        tt_model_entry_fail(entry, model, *failed ? failed : NULL, why->text);
        discard(self, &batch);
        const char *number = *failed ? failed : entry->versions ? entry->versions->number : "1";
        say(self, TT_LOG_WARNING,
            tt_model_entry_serves(entry)
                ? "model %s version %s: the load failed, and what was loaded before "
                  "continues to serve: %s"
                : "model %s version %s does not serve: %s",
            model->name, number, why->text);
        tt_fail_in(err, why, "load failed for model '%s': version %s is at UNAVAILABLE state",
                   model->name, number);
    } else {
        take_over(self, entry, &batch);
    }
    publish(self);
    return err;
}

/* Finds the repository that has the model; the first one if none has. Errors: INVALID (two have
 * it). */
static enum tt_err find_home(const struct tt_control *self, const char *name,
                             const char **out_repository, uint64_t *out_fingerprint,
                             struct tt_error *why) {
    const char *found = NULL;
    *out_fingerprint = 0;
    for (int32_t i = 0; i < self->options.repository_count; i++) {
        const char *path = self->options.repositories[i];
        uint64_t fingerprint = tt_repository_fingerprint(path, name);
        if (fingerprint == 0)
            continue;
        if (found)
            return tt_fail(TT_ERR_INVALID, why,
                           "failed to load '%s': it is in two model repositories, %s and %s; a "
                           "name must be in one only",
                           name, found, path);
        found = path;
        *out_fingerprint = fingerprint;
    }
    *out_repository = found ? found : self->options.repositories[0];
    return TT_OK;
}

/* 0: in no repository; IN_TWO. */
static uint64_t fingerprint_of(const struct tt_control *self, const char *name) {
    const char *path;
    uint64_t fingerprint;
    struct tt_error why;
    return find_home(self, name, &path, &fingerprint, &why) ? IN_TWO : fingerprint;
}

/* The model is in two repositories. What it serves continues. */
static void refuse_two(struct tt_control *self, const char *name, const struct tt_error *why) {
    struct tt_model_entry *entry = tt_model_entry_get(&self->entries, name);
    if (!entry)
        return;
    entry->is_wanted = true;
    entry->fingerprint = IN_TWO;
    tt_model_entry_fail(entry, NULL, NULL, why->text);
    say(self, TT_LOG_WARNING, "%s", why->text);
    publish(self);
}

/* Loads what was read at `home` with the default batch size. Where its rows depend on each other,
 * it is read again, to be served without batching. */
static enum tt_err load_first_read(struct tt_control *self, struct tt_model_entry *entry,
                                   const char *home, const char *config,
                                   struct tt_repository *take_repository, struct tt_error *why) {
    bool rows_depend = false;
    const struct load_source source = {.home = home, .config = config};
    enum tt_err err =
        load_read(self, entry, &take_repository->models[0], &source, &rows_depend, why);
    tt_repository_free(take_repository);
    if (!rows_depend)
        return err;
    struct tt_error reason = *why;
    struct tt_repository *again;
    err = tt_repository_scan_model(home, entry->name, tt_engines(), config, 0, &again, why);
    if (err) {
        fail_loading(entry, why->text);
        publish(self);
        return err;
    }
    err = load_read(self, entry, &again->models[0], NULL, NULL, why);
    tt_repository_free(again);
    if (!err)
        say(self, TT_LOG_WARNING, "model %s is served without batching: %s", entry->name,
            reason.text);
    return err;
}

/* Loads it; an ensemble is pending until settle(). */
static enum tt_err take_read(struct tt_control *self, struct tt_model_entry *entry,
                             const char *home, const char *config,
                             struct tt_repository *take_repository, struct tt_error *why) {
    const struct tt_repository_model *model = &take_repository->models[0];
    if (tt_repository_model_ok(model) && model->config->ensemble) {
        tt_repository_free(entry->pending);
        entry->pending = take_repository;
        return TT_OK;
    }
    enum tt_err err = load_first_read(self, entry, home, config, take_repository, why);
    if (!err) { /* it may have been an ensemble before */
        tt_repository_free(entry->ensemble);
        entry->ensemble = NULL;
    }
    return err;
}

/* `chosen`: the policy of a model with policy auto; NULL: the default one. Then settle(). */
static enum tt_err load(struct tt_control *self, const char *name,
                        const struct tt_model_command *command,
                        const struct tt_policy_candidate *chosen, struct tt_error *why) {
    const char *config = command ? command->config_json : NULL;
    bool has_files = command && command->file_count > 0;
    if (has_files && !config)
        return tt_fail(
            TT_ERR_INVALID, why,
            "failed to load '%s': parameter 'file:...' needs parameter 'config', which is "
            "missing",
            name);
    struct tt_override_files *temporary = NULL;
    enum tt_err err =
        command && has_files ? tt_override_files_write(command, &temporary, why) : TT_OK;
    if (err)
        return tt_fail_in(err, why, "failed to load '%s'", name);
    const char *home;
    uint64_t fingerprint;
    err = find_home(self, name, &home, &fingerprint, why);
    if (err) {
        refuse_two(self, name, why);
        tt_override_files_remove(temporary);
        return err;
    }
    if (command && config)
        fingerprint = 0;
    struct tt_repository *repository;
    err = tt_repository_scan_model(temporary ? temporary->repository : home, name, tt_engines(),
                                   config, TT_MODEL_DEFAULT_MAX_BATCH, &repository, why);
    if (!err && config && (err = tt_override_files_check(&repository->models[0], why)) != TT_OK)
        tt_repository_free(repository);
    if (err) {
        if (err == TT_ERR_NOT_FOUND)
            err = tt_fail(TT_ERR_INTERNAL, why,
                          "failed to load '%s', failed to poll from model repository: there is no "
                          "such directory in %s%s",
                          name, home,
                          self->options.repository_count > 1 ? " or the other repositories" : "");
    } else {
        struct tt_model_entry *entry = tt_model_entry_get(&self->entries, name);
        if (entry) {
            entry->is_wanted = true;
            entry->load_number = ++self->load_count;
            entry->chosen = chosen ? *chosen : (struct tt_policy_candidate){0};
            entry->fingerprint = fingerprint;
            err = take_read(self, entry, temporary ? temporary->repository : home, config,
                            repository, why);
        } else {
            tt_repository_free(repository);
            err = tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
        }
    }
    tt_override_files_remove(temporary);
    return err;
}

/* Keeps the ensemble, to be linked again when its parts change, unless it failed and what was
 * loaded before continues to serve. */
static enum tt_err load_pending(struct tt_control *self, struct tt_model_entry *entry,
                                struct tt_error *why) {
    struct tt_repository *repository = entry->pending;
    const struct tt_repository_model *model = &repository->models[0];
    entry->pending = NULL;
    uint64_t links = tt_ensemble_links_stamp(self->entries, model);
    enum tt_err err = load_read(self, entry, model, NULL, NULL, why);
    if (err && tt_model_entry_serves(entry)) {
        tt_repository_free(repository);
        return err;
    }
    tt_repository_free(entry->ensemble);
    entry->ensemble = repository;
    entry->links = links;
    return err;
}

/* Loads the ensembles that are pending, after the parts that they need. Returns the error of the
 * one called `name`; NULL: of none. */
static enum tt_err settle(struct tt_control *self, const char *name, struct tt_error *why) {
    struct tt_model_entry *entry;
    struct tt_error reason;
    enum tt_err result = TT_OK;
    tt_ensemble_links_restart(self->entries);
    while ((entry = tt_ensemble_links_missing(self->entries))) {
        if (entry->is_wanted && entry->fingerprint == fingerprint_of(self, entry->name))
            continue; /* it failed, and nothing has changed */
        entry->is_wanted = true;
        if (load(self, entry->name, NULL, NULL, &reason) && !entry->versions)
            say(self, TT_LOG_WARNING, "%s", reason.text);
    }
    while ((entry = tt_ensemble_links_pending(self->entries))) {
        enum tt_err err = load_pending(self, entry, &reason);
        if (err && name && strcmp(entry->name, name) == 0)
            result = tt_fail(err, why, "%s", reason.text);
    }
    return result;
}

static void unload(struct tt_control *self, struct tt_model_entry *entry) {
    struct batch none = {0};
    tt_repository_free(entry->ensemble);
    tt_repository_free(entry->pending);
    entry->ensemble = entry->pending = NULL;
    tt_assert(entry->is_wanted);
    entry->is_wanted = false;
    entry->fingerprint = 0;
    take_over(self, entry, &none);
    publish(self);
}

/* ---- the repositories ---- */

static enum tt_err see(void *context, const char *name, uint64_t fingerprint) {
    (void)fingerprint;
    struct tt_control *self = context;
    struct tt_model_entry *entry = tt_model_entry_get(&self->entries, name);
    if (!entry)
        return TT_ERR_NO_MEMORY;
    entry->is_on_disk = true;
    return TT_OK;
}

/* Marks the entries that are in a repository, and adds new ones. */
static enum tt_err look(struct tt_control *self, struct tt_error *why) {
    for (struct tt_model_entry *entry = self->entries; entry; entry = entry->next)
        entry->is_on_disk = false;
    enum tt_err err = TT_OK;
    for (int32_t i = 0; !err && i < self->options.repository_count; i++)
        err = tt_repository_list(self->options.repositories[i], see, self, why);
    return err;
}

/* Follows the repositories: loads what is new or has changed, unloads what is gone. */
static void poll(struct tt_control *self) {
    struct tt_error why;
    if (look(self, &why)) {
        say(self, TT_LOG_WARNING, "%s", why.text);
        return;
    }
    for (struct tt_model_entry *entry = self->entries; entry; entry = entry->next) {
        uint64_t now = fingerprint_of(self, entry->name);
        if (entry->is_on_disk && now && now != entry->fingerprint) {
            if (load(self, entry->name, NULL, NULL, &why) == TT_ERR_NO_MEMORY)
                entry->fingerprint = 0; /* so that the next poll tries again */
        } else if (!entry->is_on_disk && entry->is_wanted) {
            unload(self, entry);
        }
    }
    (void)settle(self, NULL, NULL);
}

/* ---- commands ---- */

static bool is_loaded(const struct tt_control *self, const struct tt_model_entry *entry) {
    bool any = false;
    for (const struct tt_version_entry *version = entry->versions; version;
         version = version->next) {
        if (version->state == TT_MODEL_UNAVAILABLE && strcmp(version->reason, "unloaded") != 0)
            return false;
        any |= version->model != NULL;
    }
    return any && entry->fingerprint && entry->fingerprint != IN_TWO &&
           entry->fingerprint == fingerprint_of(self, entry->name);
}

static enum tt_err carry_out(struct tt_control *self, const struct tt_model_command *command,
                             struct tt_error *why) {
    if (self->options.mode != TT_CONTROL_EXPLICIT && !command->is_local)
        return tt_fail(TT_ERR_UNAVAILABLE, why,
                       "explicit model load / unload is not allowed if polling is enabled%s",
                       self->options.mode == TT_CONTROL_NONE
                           ? " or model control is off; start with --model-control-mode explicit"
                           : "");
    if (strlen(command->name) > TT_REPOSITORY_NAME_BYTES)
        return tt_fail(TT_ERR_INVALID, why, "the name of a model has at most %d bytes, not %zu",
                       TT_REPOSITORY_NAME_BYTES, strlen(command->name));
    if (!tt_repository_name_ok(command->name))
        return tt_fail(TT_ERR_INVALID, why, "'%s' is not a valid name of a model", command->name);
    if (command->file_count > 0 && !tt_repository_new_name_ok(command->name))
        return tt_fail(TT_ERR_INVALID, why,
                       "'%s' is not a valid name of a new model: it is printable text without "
                       "'/', '\\', quotes and angle brackets, and does not begin with '.' or '-'",
                       command->name);
    struct tt_error ignored;
    enum tt_err err = look(self, &ignored);
    (void)err; /* load() searches again, and reports a missing model */
    struct tt_model_entry *entry = self->entries;
    while (entry && strcmp(entry->name, command->name) != 0)
        entry = entry->next;
    if (command->is_load) {
        if (entry && !command->config_json && command->file_count == 0 && is_loaded(self, entry))
            return TT_OK; /* nothing has changed */
        enum tt_err loaded = load(self, command->name, command, NULL, why);
        return loaded ? loaded : settle(self, command->name, why);
    }
    if (entry && entry->is_wanted)
        unload(self, entry);
    return TT_OK;
}

static void on_command(void *context, struct tt_model_command *command) {
    struct tt_control *self = context;
    if (self->options.forward && !command->is_local && self->options.mode == TT_CONTROL_EXPLICIT) {
        self->options.forward(self->options.forward_context, command);
        return;
    }
    tt_lock_take(&self->lock);
    command->next = self->commands;
    self->commands = command;
    tt_lock_give(&self->lock);
    tt_eventcount_notify(&self->eventcount);
}

static void take_commands(struct tt_control *self) {
    tt_lock_take(&self->lock);
    struct tt_model_command *newest = self->commands;
    self->commands = NULL;
    tt_lock_give(&self->lock);
    struct tt_model_command *oldest = tt_model_command_oldest_first(newest);
    for (struct tt_model_command *next; oldest; oldest = next) {
        next = oldest->next;
        oldest->err = carry_out(self, oldest, &oldest->why);
        tt_model_command_finish(oldest);
        reap(self);
        if (tt_model_entries_forget(&self->entries, REMEMBERED_MODELS) > 0)
            publish(self);
    }
}

/* ---- changes of policy ---- */

/* Loads one model again with another policy. It does nothing for a model that was unloaded or
 * changed after the advice was given. A model that is not served as its files are (they changed, or
 * a command brought others) keeps its policy: loading would change more than the policy. */
static void change_policy(struct tt_control *self, const struct tt_auto_advice *advice,
                          const char *name) {
    struct tt_model_entry *entry = self->entries;
    while (entry && strcmp(entry->name, name) != 0)
        entry = entry->next;
    int64_t now = tt_clock_now();
    if (!entry || !entry->is_wanted ||
        tt_model_entry_note_policy(entry, &advice->from, now, 0) == 0)
        return;
    struct tt_error why;
    enum tt_err err = TT_OK;
    struct tt_policy_candidate before = entry->chosen, to = advice->to;
    char from_text[160], to_text[160];
    tt_policy_candidate_text(&advice->from, from_text, sizeof(from_text));
    tt_policy_candidate_text(&to, to_text, sizeof(to_text));
    if (entry->fingerprint == 0 || entry->fingerprint != fingerprint_of(self, name))
        err = tt_fail(TT_ERR_UNSUPPORTED, &why,
                      "the repository has other files, or a client sent its configuration; load it "
                      "again to let auto change it");
    if (!err)
        err = load(self, name, NULL, &to, &why);
    if (err) {
        entry->chosen = before;
        say(self, TT_LOG_WARNING, "model %s: policy auto keeps %s instead of %s: %s", name,
            from_text, to_text, why.text);
        return;
    }
    tt_model_entry_note_policy(entry, &to, now, 1);
    say(self, TT_LOG_INFO, "model %s: policy auto changed %s to %s: %s", name, from_text, to_text,
        advice->reason);
}

static void take_advices(struct tt_control *self) {
    tt_lock_take(&self->lock);
    struct tt_auto_advice *advice = self->advices;
    self->advices = NULL;
    tt_lock_give(&self->lock);
    for (struct tt_auto_advice *next; advice; advice = next) {
        next = advice->next;
        int64_t before_ns = tt_clock_thread_cpu(pthread_self());
        for (int32_t m = 0; m < advice->model_count && !tt_flag_is_raised(&self->stopping); m++)
            change_policy(self, advice, advice->models[m]);
        tt_auto_advice_free(advice);
        reap(self);
        tt_auto_advisor_charge(self->advisor, tt_clock_thread_cpu(pthread_self()) - before_ns);
    }
}

static void *control_main(void *context) {
    struct tt_control *self = context;
    pthread_setname_np(pthread_self(), "tutti-control");
    int64_t poll_at = tt_instant_add(tt_clock_now(), self->options.poll_ns);
    while (!tt_flag_is_raised(&self->stopping)) {
        take_failed(self);
        reap(self);
        take_commands(self);
        take_advices(self);
        if (self->publish_failed)
            publish(self);
        int64_t now = tt_clock_now();
        if (self->options.mode == TT_CONTROL_POLL && now >= poll_at) {
            poll(self);
            poll_at = tt_instant_add(tt_clock_now(), self->options.poll_ns);
        }
        int64_t until_at = self->options.mode == TT_CONTROL_POLL ? poll_at : TT_NEVER;
        if (self->publish_failed)
            until_at = tt_instant_min(until_at, tt_instant_add(now, RETRY_NS));
        tt_eventcount_wait(&self->eventcount, until_at);
    }
    tt_flag_raise(&self->ended);
    tt_eventcount_notify(&self->closer);
    return NULL;
}

/* ---- opening and closing ---- */

/* What looks like a model in the wrong place. */
static void say_hints(struct tt_control *self) {
    for (int32_t i = 0; i < self->options.repository_count; i++) {
        struct tt_findings hints = {0};
        tt_repository_hints(self->options.repositories[i], &hints);
        for (int32_t k = 0; k < hints.count; k++)
            say(self, TT_LOG_WARNING, "%s", hints.items[k].sentence);
        tt_findings_fini(&hints);
    }
}

/* Returns only errors that prevent the server from starting; a model that fails is not one. */
static enum tt_err load_first(struct tt_control *self, struct tt_error *why) {
    enum tt_err err = look(self, why);
    if (err)
        return err;
    say_hints(self);
    bool all = self->options.mode != TT_CONTROL_EXPLICIT;
    for (int32_t i = 0; i < self->options.load_count; i++) {
        const char *name = self->options.load[i];
        if (strcmp(name, "*") == 0)
            all = true;
        else if (fingerprint_of(self, name) == 0)
            return tt_fail(TT_ERR_NOT_FOUND, why, "model repository %s: there is no model '%s'",
                           self->options.repositories[0], name);
    }
    struct tt_error reason;
    for (struct tt_model_entry *entry = self->entries; entry; entry = entry->next) {
        bool wanted = all;
        for (int32_t i = 0; i < self->options.load_count; i++)
            wanted |= strcmp(self->options.load[i], entry->name) == 0;
        entry->is_wanted |= wanted;
        enum tt_err failed = wanted ? load(self, entry->name, NULL, NULL, &reason) : TT_OK;
        if (failed == TT_ERR_NO_MEMORY)
            entry->fingerprint = 0;
        if (failed && !entry->versions) /* otherwise the message with its version was logged */
            say(self, TT_LOG_WARNING, "%s", reason.text);
    }
    (void)settle(self, NULL, NULL);
    publish(self);
    int32_t missing_count = 0;
    for (struct tt_model_entry *entry = self->entries; entry; entry = entry->next) {
        int32_t ready_before = self->ready_count;
        for (struct tt_version_entry *version = entry->versions; version; version = version->next) {
            self->model_count++;
            self->ready_count += version->model != NULL;
        }
        missing_count += entry->is_wanted && self->ready_count == ready_before;
    }
    if (self->options.exit_on_error && missing_count > 0)
        return tt_fail(TT_ERR_UNAVAILABLE, why, "%d model%s, and --exit-on-error is on",
                       missing_count, missing_count == 1 ? " does not serve" : "s do not serve");
    return TT_OK;
}

static enum tt_err open_parts(struct tt_control *self, struct tt_error *why) {
    enum tt_err err = tt_serving_open(&self->serving, why);
    if (!err && self->options.limits)
        tt_serving_set_limits(self->serving, self->options.limits);
    if (!err)
        tt_serving_record(self->serving, self->options.recorder);
    if (!err)
        tt_serving_set_readiness(
            self->serving,
            (struct tt_readiness){.needs_all = self->options.strict_readiness,
                                  .needs_one = true,
                                  .may_be_empty = self->options.mode == TT_CONTROL_EXPLICIT});
    if (!err)
        tt_serving_use_threads(self->serving, self->options.scheduler_threads);
    if (!err)
        err = tt_loader_open(&self->options.loader, self->serving, &self->loader, why);
    if (!err)
        err = tt_serving_start(self->serving, why);
    if (err)
        return err;
    tt_serving_set_controller(self->serving,
                              &(struct tt_model_controller){on_command, on_failed, self});
    err = load_first(self, why);
    if (err)
        return err;
    int failed = pthread_create(&self->thread, NULL, control_main, self);
    if (failed)
        return tt_fail(TT_ERR_IO, why, "cannot start the control thread: %s", strerror(failed));
    self->started = true;
    return TT_OK;
}

enum tt_err tt_control_open(const struct tt_control_options *options,
                            struct tt_control **out_control, struct tt_error *why) {
    tt_assert(options->repository_count >= 1);
    tt_assert(options->poll_ns > 0 || options->mode != TT_CONTROL_POLL);
    tt_assert(options->scheduler_threads >= 0);
    tt_assert(options->loader.say != NULL);
    struct tt_control *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    self->options = *options;
    if (options->mode == TT_CONTROL_EXPLICIT)
        tt_override_files_sweep();
    self->options.loader.max_load_ms = options->limits ? options->limits->load_ms : DEFAULT_LOAD_MS;
    tt_lock_init(&self->lock);
    tt_eventcount_init(&self->eventcount);
    tt_eventcount_init(&self->closer);
    enum tt_err err = open_parts(self, why);
    if (err) {
        tt_control_close(self);
        return err;
    }
    *out_control = self;
    return TT_OK;
}

struct tt_serving *tt_control_serving(struct tt_control *self) {
    return self->serving;
}
int32_t tt_control_ready_count(const struct tt_control *self) { return self->ready_count; }
int32_t tt_control_model_count(const struct tt_control *self) { return self->model_count; }

/* Waits for the retired models. All requests are answered, but cells of requests that ended early
 * may still run. */
static void await_leaving(struct tt_control *self) {
    while (self->leaving_count > 0) {
        for (struct tt_served_model *model = take_unused(self), *next; model; model = next) {
            next = model->next;
            free_model(self, model);
            self->leaving_count--;
            tt_assert(self->leaving_count >= 0);
        }
        if (self->leaving_count > 0)
            tt_eventcount_wait(&self->eventcount, TT_NEVER);
    }
}

bool tt_control_stop(struct tt_control *self, int64_t until_at) {
    tt_flag_raise(&self->stopping);
    tt_eventcount_notify(&self->eventcount);
    while (self->started && !tt_flag_is_raised(&self->ended) && tt_clock_now() < until_at)
        (void)tt_eventcount_sleep(&self->closer, until_at);
    if (self->started && !tt_flag_is_raised(&self->ended)) {
        say(self, TT_LOG_WARNING, "a model is still being loaded or unloaded; it is left behind");
        return false;
    }
    int64_t lost = tt_serving_lost_runs(self->serving);
    if (lost == 0)
        return true;
    say(self, TT_LOG_WARNING, "%lld batch%s never ended; %s left behind", (long long)lost,
        lost == 1 ? "" : "es", lost == 1 ? "it is" : "they are");
    tt_serving_stop(self->serving);
    return false;
}

void tt_control_close(struct tt_control *take_self) {
    if (!take_self)
        return;
    if (take_self->started) {
        tt_flag_raise(&take_self->stopping);
        tt_eventcount_notify(&take_self->eventcount);
        pthread_join(take_self->thread, NULL);
    }
    take_failed(take_self);
    tt_auto_advisor_close(take_self->advisor);
    struct batch none = {0};
    if (take_self->serving && take_self->loader) {
        tt_serving_publish(take_self->serving, NULL);
        for (struct tt_model_entry *entry = take_self->entries; entry; entry = entry->next)
            take_over(take_self, entry, &none);
        for (struct tt_served_model *model = take_self->retiring, *next; model; model = next) {
            next = model->next;
            model->next = NULL;
            tt_served_model_unref(model);
        }
        await_leaving(take_self);
        tt_assert(!take_self->unused);
    }
    for (struct tt_auto_advice *advice = take_self->advices, *next; advice; advice = next) {
        next = advice->next;
        tt_auto_advice_free(advice);
    }
    tt_loader_close(take_self->loader);
    tt_serving_close(take_self->serving);
    tt_model_entries_free(take_self->entries);
    tt_lock_fini(&take_self->lock);
    free(take_self);
}
