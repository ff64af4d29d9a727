package redisstore

// Tell tells the ear one message, as Listen does.
func Tell(ear Ear, message string) error { return (&listener{db: &DB{}, ear: ear}).tell(message) }
