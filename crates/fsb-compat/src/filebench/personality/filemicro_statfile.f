# Written for FSBench, with the order of operations and the numbers of filebench 1.5. Variables and operations have
# filebench's names, which --set and results use.
set $dir=/tmp
set $nfiles=10000
set $meandirwidth=20
set $filesize=128k
set $nthreads=20

define fileset name=files,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=100

define process name=examiner,instances=1
{
  thread name=examine,memsize=10m,instances=$nthreads
  {
    flowop statfile name=statfile1,filesetname=files
  }
}

run 60
