/* The calls of MPI that fsb-mpi makes. MPI_COMM_WORLD and other constants are macros, and their types differ between
 * libraries, so that only C code can name them. Each function returns an error code of MPI. */
#include <mpi.h>
#include <string.h>

int fsb_mpi_start(void) {
    int provided = 0;
    /* Only the main thread calls MPI; another one watches it. */
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (code != MPI_SUCCESS)
        return code;
    return MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

int fsb_mpi_finish(void) { return MPI_Finalize(); }

int fsb_mpi_place(int *rank, int *size) {
    int code = MPI_Comm_rank(MPI_COMM_WORLD, rank);
    return code != MPI_SUCCESS ? code : MPI_Comm_size(MPI_COMM_WORLD, size);
}

int fsb_mpi_barrier(void) { return MPI_Barrier(MPI_COMM_WORLD); }

int fsb_mpi_broadcast(void *bytes, int length) {
    return MPI_Bcast(bytes, length, MPI_BYTE, 0, MPI_COMM_WORLD);
}

int fsb_mpi_send(const void *bytes, int length, int to) {
    return MPI_Send(bytes, length, MPI_BYTE, to, 0, MPI_COMM_WORLD);
}

/* Waits for a message and returns its length. */
int fsb_mpi_probe(int from, int *length) {
    MPI_Status status;
    int code = MPI_Probe(from, 0, MPI_COMM_WORLD, &status);
    return code != MPI_SUCCESS ? code : MPI_Get_count(&status, MPI_BYTE, length);
}

int fsb_mpi_receive(void *bytes, int length, int from) {
    return MPI_Recv(bytes, length, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void fsb_mpi_abort(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

static void copy(const char *text, char *to, int room) {
    strncpy(to, text, (size_t)room - 1);
    to[room - 1] = '\0';
}

void fsb_mpi_error_text(int code, char *to, int room) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    copy(text, to, room);
}

void fsb_mpi_library(char *to, int room) {
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    copy(text, to, room);
}
