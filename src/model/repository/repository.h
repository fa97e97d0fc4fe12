/* A model repository on disk, in Triton's layout:
 *    DIR/NAME/config.pbtxt      optional
 *    DIR/NAME/tutti.pbtxt       optional
 *    DIR/NAME/VERSION/model.onnx      or one ONNX file per cell, if tutti.pbtxt names cells
 *
 * A version is a directory whose name is a number that does not begin with 0. Other entries are
 * ignored. Entries of DIR that are not directories, or begin with a dot, are not models.
 *
 * Life of a repository: `_scan` reads everything that can be read without running a model. Each
 * model has its own findings, so a problem in one does not affect the others. The server serves the
 * models without problems. This module loads no model and writes no file. */
#ifndef TT_MODEL_REPOSITORY_REPOSITORY_H
#define TT_MODEL_REPOSITORY_REPOSITORY_H

#include "base/err.h"
#include "base/text.h"
#include "model/cells/cells.h"
#include "model/config/config.h"
#include "model/config/settings.h"
#include "model/text/findings.h"

enum { TT_REPOSITORY_MAX_VERSIONS = 256 };

struct tt_repository_version {
    int64_t number;
    char *path; /* path of the ONNX file; for a model of cells the version's directory */
    struct tt_cells *cells;    /* NULL: a model of one ONNX file */
    int64_t ir_version, opset; /* of the ONNX file; 0: not known */
};

struct tt_repository_model {
    char *name;
    char *directory;
    struct tt_findings findings;
    struct tt_model_config *config;     /* NULL: the file is unreadable */
    struct tt_model_settings *settings; /* NULL: the file is unreadable */
    int32_t version_count;              /* versions to be served; ascending */
    struct tt_repository_version *versions;
};

struct tt_repository {
    char *path;
    int32_t model_count;
    struct tt_repository_model *models; /* sorted by name */
};

/* Reads all models. `engines` are the engines of this program (tt_engines), borrowed for its life.
 * `default_max_batch` is usually TT_MODEL_DEFAULT_MAX_BATCH. Errors: NOT_FOUND, IO (the directory
 * cannot be read), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_repository_scan(const char *path, const struct tt_engine_list *engines,
                                             int32_t default_max_batch,
                                             struct tt_repository **out_repository,
                                             struct tt_error *why);
/* Reads one model only, with `config_json` instead of its config.pbtxt if not NULL. Errors: as
 * above; NOT_FOUND also if there is no directory of that name. */
TT_MUST_CHECK enum tt_err
tt_repository_scan_model(const char *path, const char *name, const struct tt_engine_list *engines,
                         const char *config_json, int32_t default_max_batch,
                         struct tt_repository **out_repository, struct tt_error *why);
/* Calls `each` once per model directory, in any order. The fingerprint differs after any file in
 * the directory was changed, added or removed. Errors: as tt_repository_scan, and those of `each`.
 */
typedef enum tt_err tt_repository_list_fn(void *context, const char *name, uint64_t fingerprint);
TT_MUST_CHECK enum tt_err tt_repository_list(const char *path, tt_repository_list_fn *each,
                                             void *context, struct tt_error *why);
/* The fingerprint of one model; 0: it does not exist. */
uint64_t tt_repository_fingerprint(const char *path, const char *name);
/* The longest name of a model: it is the name of a folder. */
enum { TT_REPOSITORY_NAME_BYTES = 255 };
/* True if a model may have this name: UTF-8, as paths and pages need it, not empty, at most
 * TT_REPOSITORY_NAME_BYTES, no '/', not beginning with a dot. */
bool tt_repository_name_ok(const char *name);
/* True if a client may give a new model this name: as above, and printable, without any of
 * `\ " < >`, not beginning with '-', and without blanks at its ends. */
bool tt_repository_new_name_ok(const char *name);
void tt_repository_free(struct tt_repository *take_repository);
/* Borrowed; NULL: there is none. */
const struct tt_repository_model *tt_repository_find(const struct tt_repository *self,
                                                     const char *name);
/* True if the model has no problem and may serve. */
bool tt_repository_model_ok(const struct tt_repository_model *model);
/* Adds a remark for each thing in `path` that looks like a model and is none: an ONNX file beside
 * the models, a folder whose name is not UTF-8, or a path that is itself a model. */
void tt_repository_hints(const char *path, struct tt_findings *findings);
/* Appends a report for people: a line per model, its tensors, and every finding. */
void tt_repository_report(const struct tt_repository *self, struct tt_text *out_report);
/* Appends a report for programs: [{"name", "ok", "versions", "findings": [{"kind", "sentence"}],
 * "config", "cells": [{"name", "max_batch", "min_batch", "reads", "states", "sha256"}]}]. Errors:
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_repository_report_json(const struct tt_repository *self,
                                                    struct tt_text *out_json);

/* ---- for repository.c; implemented in repository_hints.c ---- */

/* The file at `path` does not exist: adds to the sentence in `why` which file may be meant. */
void tt_repository_hint_file(const char *path, struct tt_error *why);
/* Notes versions of the file and checks that the files with its weights exist. */
void tt_repository_check_files(struct tt_repository_version *version,
                               const struct tt_onnx_file *onnx, struct tt_findings *findings);

#endif
