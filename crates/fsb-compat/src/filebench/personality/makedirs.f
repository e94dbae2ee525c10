set $dir=/tmp
set $ndirs=10000
set $meandirwidth=100
set $nthreads=16
set mode quit firstdone

define fileset name=bigfileset,path=$dir,size=0,leafdirs=$ndirs,dirwidth=$meandirwidth

define process name=worker,instances=1
{
  thread name=workerthread,memsize=10m,instances=$nthreads
  {
    flowop makedir name=dirmakedir,filesetname=bigfileset
  }
}

run 60
