/* The verbs of the program. Each lives in its own file cmd_<verb>.c, parses its own flags (argv[0]
 * is the verb), prints results on stdout and messages on stderr, and returns the exit code: 0 done;
 * 1 it ran and failed, or what was asked for does not hold; 2 the request makes no sense; 130
 * interrupted. */
#ifndef TT_CMD_VERBS_H
#define TT_CMD_VERBS_H

int tt_cmd_serve(int argc, char **argv);
int tt_cmd_models(int argc, char **argv);
int tt_cmd_profile(int argc, char **argv);
int tt_cmd_slice(int argc, char **argv);
int tt_cmd_policies(int argc, char **argv);
int tt_cmd_experiment(int argc, char **argv);
int tt_cmd_replay(int argc, char **argv);
int tt_cmd_reproduce(int argc, char **argv);
int tt_cmd_compare(int argc, char **argv);
int tt_cmd_load(int argc, char **argv);
int tt_cmd_top(int argc, char **argv);
int tt_cmd_bench(int argc, char **argv);

#endif
