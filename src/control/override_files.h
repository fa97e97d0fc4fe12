/* Writes the files of a load command to a model's directory, in a temporary repository below the
 * system's temporary directory. It exists while the model is loaded, and is locked so long. What a
 * killed process left behind has no lock, and the next server removes it. Implemented in
 * override_files.c. */
#ifndef TT_CONTROL_OVERRIDE_FILES_H
#define TT_CONTROL_OVERRIDE_FILES_H

#include "model/repository/repository.h"
#include "serve/model_command.h"

struct tt_override_files {
    char *repository; /* its path */
    int fd;           /* of that directory, with the lock; -1: none */
};

/* Writes the command's files. Errors: INVALID (a path that is not <version>/<name>), IO, NO_MEMORY;
 * then no files are left. */
TT_MUST_CHECK enum tt_err tt_override_files_write(const struct tt_model_command *command,
                                                  struct tt_override_files **out_files,
                                                  struct tt_error *why);
void tt_override_files_remove(struct tt_override_files *take_files); /* NULL-safe */
/* Removes repositories of this user that are older than a minute and that no process has locked. */
void tt_override_files_sweep(void);
/* Whether a client may bring this model's configuration, and files. Errors: INVALID. */
TT_MUST_CHECK enum tt_err tt_override_files_check(const struct tt_repository_model *model,
                                                  struct tt_error *why);

#endif
